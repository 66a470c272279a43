"""Beginning the actions that pages offer, by the words in their addresses."""

from typing import Any

from django.http import Http404

from provisioning.common.context import RequestContext
from provisioning.compute.actions.base import Button, ServerAction
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.registry import with_buttons
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState


def action_named(name: str) -> tuple[ServerAction[Any], Button]:
    """Return the action whose button has this name, and the button; Http404."""
    for action in with_buttons():
        if action.button is not None and action.button.name == name:
            return action, action.button
    raise Http404


def begin(context: RequestContext, action: ServerAction[Any], instance: Instance) -> None:
    """Begin an action; an instance that is only kept to be restored is deleted for good.  Raises as the action."""
    if action.key == "delete":
        delete(context, instance.id, force=instance.vm_state == VmState.SOFT_DELETED)
    else:
        action.begin(context, instance.id)
