"""Everything the page of one instance shows."""

from __future__ import annotations

from typing import Any

from portal.dashboard.instances import timeline
from portal.dashboard.instances.connect import connect_for
from portal.dashboard.instances.rows import rows_for
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance, InstanceAction, SchedulingDecision
from provisioning.identity import policy
from provisioning.network import selectors as network


def detail_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return what the page and its live parts need."""
    row = rows_for(context, [instance])[0]
    decision = compute.decision_for(context, instance.id)
    return {
        "row": row,
        "advice": _advice(decision) if row.fault else "",
        "attempts": timeline.attempts(_steps(context, instance)),
        "decision": decision,
        "funnel": timeline.funnel(decision),
        "deeds": timeline.deeds(_actions(context, instance)),
        "connect": connect_for(context, instance, row.addresses),
        "groups": network.security_group_names_of([instance.id]).get(instance.id, []),
        "host": instance.host.name if instance.host and policy.allows(context, "compute:servers:show:host") else "",
    }


def _steps(context: RequestContext, instance: Instance) -> list[compute.Step]:
    seen = policy.allows(context, "compute:instance_actions:events")
    return compute.timeline_for(context, instance.id) if seen else []


def _actions(context: RequestContext, instance: Instance) -> list[InstanceAction]:
    seen = policy.allows(context, "compute:instance_actions:list")
    return compute.actions_for(context, instance.id) if seen else []


def _advice(decision: SchedulingDecision | None) -> str:
    """Say what a person can do about a failed launch, by the filter that left no host."""
    again = "Delete it, since it counts in the quota until then, and launch again."
    if decision is None or not decision.filters or decision.filters[-1]["after"]:
        return f"{again} If it fails the same way, give the request id below to an operator."
    return {
        "enabled_and_alive": "No host is at work. Ask an operator to enable or repair one, then launch again.",
        "availability_zone": "Launch again in another availability zone, or leave the choice open.",
        "requested_host": "Launch again without naming a host, or name one that is at work.",
        "architecture": "Choose an image that is made for the hosts' processors, then launch again.",
        "aggregate_extra_specs": "Choose another size, or ask an operator for hosts of this kind.",
        "same_host": "Launch again without the hint same_host, or name servers that are there.",
        "different_host": "Launch again with fewer servers in the hint different_host.",
        "group_affinity": "The host of the server group is full or away. Launch again in no group, or in another one.",
        "group_anti_affinity": "Every host has its servers of the group. Launch again in no group, or in a soft one.",
        "not_tried_before": "Every host has failed to build it. Give the request id below to an operator.",
        "vcpus": "Choose a size with fewer vCPUs, or delete instances you no longer need, then launch again.",
        "ram": "Choose a size with less memory, or delete instances you no longer need, then launch again.",
        "disk": "Choose a size with a smaller disk, or delete instances you no longer need, then launch again.",
    }.get(decision.filters[-1]["name"], again)
