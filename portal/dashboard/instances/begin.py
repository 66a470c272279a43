"""Beginning the actions that pages offer, by the words in their addresses."""

from typing import Any

from django.http import Http404

from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.actions.base import Button, ServerAction
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.registry import with_buttons
from provisioning.compute.models import Instance
from provisioning.compute.states import TaskState, VmState


def action_named(name: str) -> tuple[ServerAction[Any], Button]:
    """Return the action whose button has this name, and the button; Http404."""
    for action in with_buttons():
        if action.button is not None and action.button.name == name:
            return action, action.button
    raise Http404


def kept_to_be_restored(instance: Instance) -> bool:
    """Return whether the question about its delete is whether to delete it for good."""
    return instance.vm_state == VmState.SOFT_DELETED


def begin(context: RequestContext, action: ServerAction[Any], instance: Instance, *, force: bool = False) -> None:
    """Begin an action.  Raises as the action.

    ``force``: the question about a delete was whether to delete for good what is kept to be restored.  Without it, one
    that is kept, or is about to be, stays so: the answer may have been sent twice.
    """
    if action.key != "delete":
        action.begin(context, instance.id)
        return
    now = compute.instance_for(context, instance.id)
    kept = kept_to_be_restored(now)
    if force or not (kept or now.task_state == TaskState.SOFT_DELETING):
        delete(context, instance.id, force=kept)
