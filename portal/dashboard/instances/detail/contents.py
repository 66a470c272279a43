"""Context of the page of an instance: its head and its tabs."""

from collections.abc import Iterable
from typing import Any

from portal.dashboard.instances.detail import timeline
from portal.dashboard.instances.detail.advice import advice_on
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
