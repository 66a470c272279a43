"""Actions that can be run on several instances together."""

from provisioning.common.context import RequestContext
from provisioning.compute.actions.base import Button
from provisioning.compute.actions.registry import with_buttons
from provisioning.identity import policy

BULK = ("start", "stop", "reboot", "delete")
"""Names of the buttons of these actions."""
MOST = 1000
"""Maximum number of instances in one request."""


def bulk_actions(context: RequestContext) -> list[Button]:
    """Return the buttons of the actions that the caller may start on several instances."""
    return [
        action.button
        for action in with_buttons()
        if action.button and action.button.name in BULK and policy.allows(context, action.rule)
    ]
