"""Repeats commands that a host rejects as superseded although they are the newest in the records.

The host has then seen a higher attempt, so records were lost. The record's attempt is raised above it, and the command
is sent once more.
"""

import logging

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.power import PowerState
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.allocations import raise_attempt
from provisioning.compute.models import Instance
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.hosts.restored import LEAP

log = logging.getLogger(__name__)

CODE = "superseded"
GENERATION = "generation"
"""Key of the newest generation that a host has seen; older agents do not send it."""
_BUILD, _DESTROY = "build_request", "destroy_request"


def repeat(instance: Instance, event: AgentEvent, command: HostCommand) -> None:
    """Repeat the command with an attempt number above the host's, in the caller's transaction, and store the number in
    the instance.

    No effect when the record has changed since, the command was already repeated, or a deletion of the server may
    have overtaken it. Also no effect for a destroy command of a server that is not being deleted, because the host may
    have a newer guest.
    """
    if command.repeated or command.generation != instance.attempt:
        return
    if command.kind == _DESTROY and instance.task_state != TaskState.DELETING:
        return
    if command.kind != _DESTROY and instance.host_id != command.host_id:
        return
    if command.kind != _DESTROY and (instance.task_state == TaskState.DELETING or instance.vm_state == VmState.DELETED):
        return
    before, seen = instance.attempt, _seen(event)
    number = seen + 1 if seen >= before else before + LEAP
    same_guest = command.kind not in (_BUILD, _DESTROY)
    guest = (instance.guest_attempt or before) if same_guest else None
    if number > newer_guests.MOST + LEAP or not state.update(instance, {"attempt": number, "guest_attempt": guest}):
        return
    raise_attempt(instance.id, before, number)
    newer_guests.note(
        command.host_id, instance, max(seen, before), PowerState.NOSTATE, newer_guests.FOLLOWED, record_attempt=before
    )
    commands.repeat(command, number)
    state.extend_deadline(instance)
    log.warning(
        "Host %s has seen attempt %s of instance %s, the record has %s: repeating %s.",
        command.host_id, seen or "a higher", instance.id, before, command.kind,
    )  # fmt: skip


def _seen(event: AgentEvent) -> int:
    """Return the newest generation that the host has seen according to the event, or 0."""
    text = event.detail.get(GENERATION, "")
    return min(int(text), newer_guests.MOST) if text.isascii() and text.isdigit() and len(text) < 12 else 0
