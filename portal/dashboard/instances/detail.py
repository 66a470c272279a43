"""Context of the detail page of an instance."""

from dataclasses import replace
from typing import Any

from portal.dashboard.instances import timeline
from portal.dashboard.instances.advice import advice_on
from portal.dashboard.instances.connect import connect_for
from portal.dashboard.instances.disks import disks_for
from portal.dashboard.instances.reach import reach_for
from portal.dashboard.instances.rows import buttons_of, rows_for
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.selectors.explained import Explained
from provisioning.identity import policy


def detail_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the context of the page and its live parts."""
    row = replace(rows_for(context, [instance])[0], buttons=buttons_of(context, instance))
    decisions = _decisions(context, instance)
    actions = _actions(context, instance)
    return {
        "row": row,
        "can": {
            "console_log": policy.allows(context, "os_compute_api:os-console-output"),
            "launch_again": instance.host_id is None and policy.allows(context, "os_compute_api:servers:create"),
            "open_console": policy.allows(context, "os_compute_api:os-remote-consoles"),
        },
        "advice": advice_on(decisions[0] if decisions else None) if row.fault else "",
        "attempts": timeline.attempts(_steps(context, instance)),
        "decisions": decisions,
        "later_actions": timeline.later_actions(
            actions, compute.tunnels_of(actions), compute.running_steps_of(actions)
        ),
        "connect": connect_for(context, instance, row.addresses),
        "disks": disks_for(context, instance),
        "reach": reach_for(context, instance),
        "host": instance.host.name
        if instance.host and policy.allows(context, "os_compute_api:os-extended-server-attributes")
        else "",
    }


def _decisions(context: RequestContext, instance: Instance) -> list[Explained]:
    seen = policy.allows(context, "novella:servers:scheduling")
    return compute.decisions_for(context, instance.id) if seen else []


def _steps(context: RequestContext, instance: Instance) -> list[compute.Step]:
    seen = policy.allows(context, "os_compute_api:os-instance-actions:events")
    return compute.timeline_for(context, instance.id) if seen else []


def _actions(context: RequestContext, instance: Instance) -> list[InstanceAction]:
    seen = policy.allows(context, "os_compute_api:os-instance-actions:list")
    return compute.actions_for(context, instance.id) if seen else []
