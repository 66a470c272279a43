"""Context of the page of an instance: its head and its tabs."""

from typing import Any

from portal.dashboard.instances import timeline
from portal.dashboard.instances.advice import advice_on
from portal.dashboard.instances.connect import connect_for
from portal.dashboard.instances.menu import menu_for
from portal.dashboard.instances.rows import rows_for
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.selectors.explained import Explained
from provisioning.compute.services.remote_consoles import RULE as OPENS_CONSOLES
from provisioning.identity import policy
from provisioning.launches.selectors import lease_of
from provisioning.launches.services.leases import UPDATE as UPDATES_LEASES

READS_LOG = "os_compute_api:os-console-output"
LISTS_ACTIONS = "os_compute_api:os-instance-actions:list"
NEWEST = 5
"""Number of actions on the overview."""


def head_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the context of the head, which all tabs have: state, addresses, actions, and the fault with advice."""
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
        },
        "lease": lease_of(instance.id),
        "connect": connect_for(context, instance, row.addresses),
        "advice": advice_on(decisions[0] if decisions else None) if row.fault else "",
    }


def overview_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the launch, the newest actions and the details."""
    launch = _launch(context, instance)
    return {**launch, "later_actions": launch["later_actions"][:NEWEST], "host": _host(context, instance)}


def console_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return nothing besides the head."""
    return {}


def activity_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return all actions, the launch and the scheduler's decisions."""
    return _launch(context, instance)


def settings_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the server group; all else is in the head."""
    return {"group": instance.server_group.name if instance.server_group else ""}


def _launch(context: RequestContext, instance: Instance) -> dict[str, Any]:
    actions = _actions(context, instance)
    return {
        "attempts": timeline.attempts(_steps(context, instance)),
        "decisions": _decisions(context, instance),
        "later_actions": timeline.later_actions(
            actions, compute.tunnels_of(actions), compute.running_steps_of(actions)
        ),
    }


def _host(context: RequestContext, instance: Instance) -> str:
    seen = policy.allows(context, "os_compute_api:os-extended-server-attributes")
    return instance.host.name if instance.host and seen else ""


def _decisions(context: RequestContext, instance: Instance) -> list[Explained]:
    seen = policy.allows(context, "novella:servers:scheduling")
    return compute.decisions_for(context, instance.id) if seen else []


def _steps(context: RequestContext, instance: Instance) -> list[compute.Step]:
    seen = policy.allows(context, "os_compute_api:os-instance-actions:events")
    return compute.timeline_for(context, instance.id) if seen else []


def _actions(context: RequestContext, instance: Instance) -> list[InstanceAction]:
    seen = policy.allows(context, LISTS_ACTIONS)
    return compute.actions_for(context, instance.id) if seen else []
