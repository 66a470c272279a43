"""Checks of a plan that write nothing."""

from collections.abc import Collection

import msgspec

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError, NovellaError, OverQuotaError
from provisioning.compute.launch.create import check_launch
from provisioning.compute.launch.quote import LaunchQuote
from provisioning.launches.cloud_config.check import problem_of
from provisioning.launches.plans.plan import FIELD_OF, LaunchPlan
from provisioning.launches.services import leases, snippets
from provisioning.quotas import selectors as quotas
from provisioning.quotas.limits import UNLIMITED


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
    """Raise InvalidInputError for the first ``locked`` field whose value no launch could have: a deleted image, or user
    data that cloud-init would ignore. Quotas and states that change do not matter.
    """
    if "user_data" in locked and (problem := problem_of(plan.user_data)):
        raise InvalidInputError(problem, field="user_data")
    try:
        _check(context, msgspec.structs.replace(plan, name=plan.name or "name"))
    except (InvalidInputError, NotFoundError) as error:
        field = FIELD_OF.get(error.field or "", error.field)
        if field in locked and (field != "reachable" or "networks" in locked):  # other networks may have a router
            raise InvalidInputError(error.message, field=field) from error
    except NovellaError:
        return


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
