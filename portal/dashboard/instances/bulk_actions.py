"""Which actions are offered for several instances together."""

from provisioning.common.context import RequestContext
from provisioning.compute.actions.base import Button
from provisioning.compute.actions.registry import with_buttons
from provisioning.identity import policy

BULK = ("start", "stop", "reboot", "delete")
"""The names of their buttons."""
MOST = 1000
"""Instances that one request can be about."""


def bulk_actions(context: RequestContext) -> list[Button]:
    """Return the buttons of the actions that the caller may begin on several instances."""
    return [
        action.button
        for action in with_buttons()
        if action.button and action.button.name in BULK and policy.allows(context, action.rule)
    ]
