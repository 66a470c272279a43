"""Checks of a plan that write nothing."""

from collections.abc import Collection

import msgspec

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError, NovellaError, OverQuotaError
from provisioning.compute.launch.create import check_launch
from provisioning.compute.launch.quote import LaunchQuote
from provisioning.compute.selectors import flavors_for
from provisioning.images.models import Image
from provisioning.images.selectors import visible_images
from provisioning.launches.cloud_config.check import problem_of
from provisioning.launches.errors import LockedValuesError
from provisioning.launches.plans.plan import FIELDS, LaunchPlan, choices_of
from provisioning.launches.services import leases, snippets
from provisioning.quotas import selectors as quotas
from provisioning.quotas.limits import UNLIMITED

_USUAL = LaunchPlan(name="name")


def check_plan(context: RequestContext, plan: LaunchPlan) -> LaunchQuote:
    """Check a plan without writing anything, and return the resources it would use. Raises the errors of
    ``launch.launch_plan``.
    """
    check_volumes(context, plan)
    return _check(context, plan)


def _check(context: RequestContext, plan: LaunchPlan) -> LaunchQuote:
    leases.check_days(plan.lease_days)
    return check_launch(context, plan.request(idempotency_key="", configs=snippets.texts_of(context, plan.snippets)))


def check_locked_values(context: RequestContext, plan: LaunchPlan, locked: Collection[str]) -> None:
    """Raise LockedValuesError with all ``locked`` fields whose value no launch could have: a deleted image, or user
    data that cloud-init would ignore. Quotas and states that change do not matter.

    After each error the check is repeated with another value of a field that caused it. A value that is invalid only
    together with a field that launches choose is accepted.
    """
    problems: dict[str, str] = {}
    if "user_data" in locked and (problem := problem_of(plan.user_data)):
        problems["user_data"] = problem
        plan = msgspec.structs.replace(plan, user_data="")
    plan = msgspec.structs.replace(plan, name=plan.name or "name")
    replaced = set(problems)
    while error := _invalid(context, plan):
        fields = choices_of(error)
        if error.field == "user_data" and plan.snippets:  # they are parts of it
            fields.append("snippets")
        if fields and replaced.isdisjoint(fields) and set(fields) <= set(locked):
            problems.setdefault(fields[0], error.message)
        open_first = sorted(fields, key=lambda name: name in locked)
        field = next((name for name in open_first if name in FIELDS and name not in replaced), None)
        if field is None:
            break
        for name in (field, "image") if field == "boot_from" else (field,):
            replaced.add(name)
            plan = _with_another(context, plan, name)
    if problems:
        raise LockedValuesError({name: problems[name] for name in FIELDS if name in problems})


def _invalid(context: RequestContext, plan: LaunchPlan) -> NovellaError | None:
    """Return the first error of a plan that depends on nothing but its values."""
    try:
        _check(context, plan)
    except (InvalidInputError, NotFoundError) as error:
        return error
    except NovellaError:
        pass
    return None


def _with_another(context: RequestContext, plan: LaunchPlan, field: str) -> LaunchPlan:
    """Return the plan with another value of a field: its default, or a flavor or image that the caller may use."""
    value = getattr(_USUAL, field)
    if field == "flavor":
        value = next((each.flavorid for each in reversed(flavors_for(context))), "")
    if field == "image":
        found = visible_images(context).filter(status=Image.Status.ACTIVE).order_by("min_ram", "size").first()
        value = str(found.pk) if found else ""
    return msgspec.structs.replace(plan, **{field: value})


def check_volumes(context: RequestContext, plan: LaunchPlan) -> None:
    """Raise OverQuotaError if the project's quota is too small for the new volumes, which hosts create later."""
    sizes = [each.size_gb for each in plan.disks]
    sizes += [plan.volume_size or 1] if plan.on_volume and not plan.boot_from else []
    if not sizes or context.project_id is None:
        return
    limits, usage = quotas.limits_of(context.project_id), quotas.usage_of(context.project_id)
    for resource, amount in (("volumes", len(sizes)), ("gigabytes", sum(sizes))):
        limit, used, requested = limits.get(resource, UNLIMITED), usage.get(resource, 0), amount * plan.count
        if limit != UNLIMITED and used + requested > limit:
            raise OverQuotaError(resource, limit=limit, used=used, requested=requested)
