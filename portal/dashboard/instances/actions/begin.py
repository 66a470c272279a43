"""The start of an action on an instance, and the volumes that its deletion keeps or deletes."""

from collections.abc import Iterable
from typing import Any

from django.http import Http404

from provisioning.common.context import RequestContext
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.delete import delete_once
from provisioning.compute.actions.registry import with_buttons
from provisioning.compute.actions.ways import Button
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.states import VmState


def action_named(name: str) -> tuple[ServerAction[Any], Button]:
    """Return the action whose button has this name, and the button. Raises Http404."""
    for action in with_buttons():
        if action.button is not None and action.button.name == name:
            return action, action.button
    raise Http404


def kept_to_be_restored(instance: Instance) -> bool:
    """Whether the instance is soft-deleted, so that deleting it again is permanent."""
    return instance.vm_state == VmState.SOFT_DELETED


def begin(context: RequestContext, action: ServerAction[Any], instance: Instance, *, force: bool = False) -> None:
    """Start an action; raises the errors of the action.

    ``force``: the user has confirmed the permanent deletion of a soft-deleted instance. Without it, deletion of a
    soft-deleted instance has no effect, as the form may have been sent twice.
    """
    if action.key == "delete":
        delete_once(context, instance.id, permanent=force)
    else:
        action.begin(context, instance.id)


def volumes_left(devices: Iterable[BlockDevice]) -> str:
    """Return how many volumes are deleted with their instances, and how many are kept; empty without volumes."""
    rows, found = list(devices), []
    for fate, is_deleted in (("deleted with {}", True), ("kept", False)):
        if number := sum(each.delete_on_termination is is_deleted for each in rows):
            owners = "it" if len({each.instance_id for each in rows}) == 1 else "them"
            found.append(f"{number} volume{' is' if number == 1 else 's are'} {fate.format(owners)}.")
    return " ".join(found)
