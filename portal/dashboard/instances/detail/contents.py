"""Context of the page of an instance: its head and its tabs."""

from collections.abc import Iterable
from typing import Any

from portal.dashboard.instances.detail import timeline
from portal.dashboard.instances.detail.connect import connect_for
from portal.dashboard.instances.detail.menu import menu_for
from portal.dashboard.instances.dialogs.moving import move_for
from portal.dashboard.instances.lists.rows import rows_for
from portal.dashboard.records.views import other_project
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.selectors.explained import Explained
from provisioning.compute.selectors.history import usual_of
from provisioning.compute.services.remote_consoles import RULE as OPENS_CONSOLES
from provisioning.identity import policy
from provisioning.identity.selectors.lookups import user_names
from provisioning.launches.selectors import lease_of
from provisioning.launches.services.leases import UPDATE as UPDATES_LEASES
from provisioning.launches.services.templates import WRITE as WRITES_TEMPLATES

READS_LOG = "os_compute_api:os-console-output"
LISTS_ACTIONS = "os_compute_api:os-instance-actions:list"
SEES_STEPS = "os_compute_api:os-instance-actions:events"
NEWEST, MOST = 5, 200
"""Number of actions on the overview, and in the activity."""

AGAIN = "Delete the instance, since it counts towards the quota, and launch again."
ASK = f"{AGAIN} If it fails again, send the request id below to an operator."
_SMALLER = "or delete instances you no longer need, then launch again."
ADVICE = {
    "ComputeFilter": "No host is up. Ask an operator to enable or repair one, then launch again.",
    "RequestedHostFilter": "Launch again without naming a host, or name one that is up.",
    "IgnoredHostsFilter": "Launch again and exclude fewer hosts.",
    "RequireZoneFilter": "Launch again in one of the availability zones.",
    "AvailabilityZoneFilter": "Launch again in another availability zone, or without a zone.",
    "ImagePropertiesFilter": ("Choose an image for the architecture and hypervisor of the hosts, then launch again."),
    "HostNeedsFilter": "Choose another size or image, or ask an operator for hosts that support their requirements.",
    "ComputeCapabilitiesFilter": "Choose another size, or ask an operator for hosts that meet its requirements.",
    "CpuFeaturesFilter": "Ask an operator for a host whose processor has the features that the instance uses.",
    "JsonFilter": "Launch again without the hint query, or with one that hosts can meet.",
    "AggregateInstanceExtraSpecsFilter": "Choose another size, or ask an operator for hosts of this kind.",
    "SameHostFilter": "Launch again without the hint same_host, or name instances that exist.",
    "DifferentHostFilter": "Launch again with fewer instances in the hint different_host.",
    "ServerGroupAffinityFilter": (
        "The host of the server group is full or down. Launch again without a group, or in another group."
    ),
    "ServerGroupAntiAffinityFilter": (
        "Every host has instances of the group. Launch again in no group, or in a group with a soft policy."
    ),
    "RetryFilter": "Every host has failed to build it. Send the request id below to an operator.",
    "NumInstancesFilter": (
        "Every host has reached its maximum number of instances. Delete some, or ask an operator for more hosts."
    ),
    "IoOpsFilter": (
        "The hosts are busy building other instances. Delete this one, wait some minutes, then launch again."
    ),
    "CoreFilter": f"Choose a size with fewer vCPUs, {_SMALLER}",
    "RamFilter": f"Choose a size with less memory, {_SMALLER}",
    "DiskFilter": f"Choose a size with a smaller disk, {_SMALLER}",
}
"""Filter → advice; custom filters have none."""


def head_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the context of the head, which all tabs have: state, addresses, actions, move, fault with advice."""
    row = rows_for(context, [instance])[0]
    decisions = _decisions(context, instance) if row.fault else []
    return {
        "row": row,
        "menu": menu_for(context, instance),
        "can": {
            "console_log": policy.allows(context, READS_LOG),
            "launch_again": instance.host_id is None and policy.allows(context, "os_compute_api:servers:create"),
            "open_console": policy.allows(context, OPENS_CONSOLES),
            "lease": policy.allows(context, UPDATES_LEASES),
            "template": policy.allows(context, WRITES_TEMPLATES),
        },
        "project": other_project(context, instance.project_id),
        "lease": lease_of(instance.id),
        "moving": move_for(context, instance),
        "connect": connect_for(context, instance, row.addresses),
        "advice": advice_on(decisions[0] if decisions else None) if row.fault else "",
    }


def overview_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the launch, the newest actions and the details; the scheduler's decisions only without a host."""
    actions = _actions(context, instance, NEWEST + 1)
    return {
        **_launch(context, instance),
        "decisions": [] if instance.host_id else _decisions(context, instance),
        "later_actions": timeline.later_actions(
            actions, compute.tunnels_of(actions), compute.running_steps_of(actions)
        )[:NEWEST],
        "host": _host(context, instance),
    }


def console_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return an empty context: the console page needs only the head."""
    return {}


def activity_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return all actions with persons and steps, the launch and the scheduler's decisions."""
    actions = _actions(context, instance, MOST)
    seen = policy.allows(context, SEES_STEPS)
    return {
        **_launch(context, instance),
        "unfolded": True,
        "decisions": _decisions(context, instance),
        "actions": timeline.later_actions(
            actions,
            compute.tunnels_of(actions),
            compute.running_steps_of(actions),
            who=_persons(instance, actions),
            events=compute.steps_of(context, actions) if seen else {},
            launch=True,
        ),
        "most": MOST if len(actions) == MOST else 0,
    }


def settings_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the server group; all else is in the head."""
    return {"group": instance.server_group.name if instance.server_group else ""}


def _launch(context: RequestContext, instance: Instance) -> dict[str, Any]:
    if not policy.allows(context, SEES_STEPS):
        return {"attempts": [], "usual": None}
    return {"attempts": timeline.attempts(compute.timeline_for(context, instance.id)), "usual": usual_of(instance)}


def _persons(instance: Instance, actions: Iterable[InstanceAction]) -> dict[int, str]:
    """Return action id → who began it; persons from outside the project are not named."""
    own = [action for action in actions if action.project_id == instance.project_id and action.user_id]
    names = user_names(action.user_id for action in own if action.user_id)
    persons = {action.pk: "an operator" if action.user_id else "the system" for action in actions}
    return persons | {action.pk: names.get(action.user_id, "a deleted user") for action in own if action.user_id}


def _host(context: RequestContext, instance: Instance) -> str:
    seen = policy.allows(context, "os_compute_api:os-extended-server-attributes")
    return instance.host.name if instance.host and seen else ""


def _decisions(context: RequestContext, instance: Instance) -> list[Explained]:
    seen = policy.allows(context, "novella:servers:scheduling")
    return compute.decisions_for(context, instance.id) if seen else []


def _actions(context: RequestContext, instance: Instance, limit: int) -> list[InstanceAction]:
    seen = policy.allows(context, LISTS_ACTIONS)
    return compute.actions_for(context, instance.id, limit=limit) if seen else []


def advice_on(decision: Explained | None) -> str:
    """Return the advice for a launch with this latest decision."""
    stopper = decision.stopper if decision is not None else None
    if stopper is None:
        return ASK
    return ADVICE.get(stopper.result.name, ASK)
