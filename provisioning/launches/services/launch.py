"""Launch a plan, with everything that belongs to it, in one transaction."""

from dataclasses import dataclass

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.values.ids import NOBODY
from provisioning.compute.launch.create import launch
from provisioning.compute.launch.idempotency import identity_of
from provisioning.compute.models import Instance
from provisioning.compute.records.passwords import generate_password
from provisioning.launches.plans.openings import group_opening
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.launches.services import leases, snippets, templates
from provisioning.launches.services.check import check_volumes
from provisioning.network import services as network


@dataclass(frozen=True, slots=True)
class Launched:
    """The servers of a plan."""

    instances: list[Instance]
    password: str = ""
    """The password of the servers' default users; empty when there is none, and for a repeated request."""


@when_broken_off
def launch_plan(
    context: RequestContext, plan: LaunchPlan, idempotency_key: str, *, source: templates.Source | None = None
) -> Launched:
    """Launch the servers of a plan, with its security group, floating IPs, volumes and leases: all or none.

    ``source``: the version of a template that the launch uses; its locked fields must be unchanged. A repeated
    ``idempotency_key`` changes nothing and returns the servers of the earlier request. Raises the errors of
    ``compute.launch`` and of ``templates.check_locked``, and InvalidInputError for ``lease_days``.
    """
    locked = templates.check_locked(context, plan, source) if source is not None else frozenset()
    leases.check_days(plan.lease_days)
    check_volumes(context, plan)
    configs = snippets.texts_of(context, plan.snippets)
    password = generate_password() if plan.needs_password else None
    request = plan.request(idempotency_key=idempotency_key, configs=configs, password=password)
    with transaction.atomic():
        made = identity_of(context, request).launched_before()
        if made:
            return Launched(made)
        groups = _groups(context, plan)
        request = plan.request(idempotency_key=idempotency_key, configs=configs, extra_groups=groups, password=password)
        instances = launch(context, request)
        if instances[0].request_id != context.request_id:  # a concurrent repetition was faster
            transaction.set_rollback(True)
            return Launched(instances)
        leases.begin(instances, plan.lease_days, fixed="lease_days" in locked)
    return Launched(instances, password or "")


def _groups(context: RequestContext, plan: LaunchPlan) -> list[str]:
    """Return the security groups of a plan's openings, and the default group if the plan has no other."""
    if not plan.openings or not plan.networks:
        return []
    usual = [] if plan.security_groups else [network.ensure_default_security_group(context.project_id or NOBODY)]
    return [str(group.id) for group in (*usual, group_opening(context, plan.openings))]
