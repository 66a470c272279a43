"""The start of an action on an instance, why it cannot begin now, and the volumes that its deletion keeps."""

from collections.abc import Iterable
from typing import Any

from django.http import Http404
from django.utils import timezone

from portal.common import statuses
from provisioning.common.context import RequestContext
from provisioning.compute.actions.base import HostAction, ServerAction
from provisioning.compute.actions.delete import delete_once
from provisioning.compute.actions.registry import with_buttons
from provisioning.compute.actions.ways import Button
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.states import VmState, api_status
from provisioning.identity import policy

NEVER_BUILT = (VmState.BUILDING, VmState.ERROR)
"""States in which a server without a host was never built, so that no host can carry out its actions."""


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


def refusal(instance: Instance, action: ServerAction[Any], *, masters: bool) -> str:
    """Return why the action cannot begin on the instance now, as a sentence; empty if it can.

    ``masters``: whether the caller may override locks. The policy rule of the action is not checked.
    """
    if instance.locked and not masters and action.heeds_lock:
        return f"It is locked: {instance.locked_reason}." if instance.locked_reason else "It is locked."
    on_host = isinstance(action, HostAction) and action.key != "delete"
    if on_host and instance.host_id is None and instance.vm_state in NEVER_BUILT:
        return "It was never built, so it is not on a host."
    if action.offered(instance):
        return "Its host does not answer." if on_host and statuses.is_silent(instance, timezone.now()) else ""
    if instance.task_state:
        return f"It is busy: {statuses.task_word(instance.task_state).lower() or instance.task_state}."
    if isinstance(action, HostAction) and action.from_states and instance.vm_state not in action.from_states:
        able = dict.fromkeys(state_word(state) for state in action.from_states)
        return f"It is {state_word(instance.vm_state)}. It must be {_either(list(able))}."
    why = action.why_not(instance)
    return f"{why[:1].upper()}{why[1:]}."


def masters_locks(context: RequestContext) -> bool:
    """Whether the caller may act on locked servers."""
    return policy.allows(context, "os_compute_api:os-lock-server:unlock:unlock_override")


def state_word(vm_state: str) -> str:
    """Return a state within a sentence: ``stopped``, ``in error``."""
    word = statuses.INSTANCE_STATUS[api_status(vm_state, None)].word.partition(",")[0].lower()
    return "in error" if word == "error" else word


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
