"""Switching: start, stop, reboot, pause, suspend, a crash dump, and a password set inside the guest."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal

from django.db import transaction
from django.utils import timezone
from oslo_utils import strutils

from compute_agent.contract.commands import PasswordRequest, PowerRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, UnavailableError
from provisioning.compute import host_commands, instance_actions, selectors
from provisioning.compute.actions.base import HOST_AWAY, Deed, begin, check_lock
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note, notify
from provisioning.compute.states import VmState
from provisioning.hosts.selectors import is_alive

Power = Literal["start", "stop", "reboot_soft", "reboot_hard", "pause", "unpause", "suspend", "resume"]


@dataclass(frozen=True, slots=True)
class Switch:
    """One power action: Nova's action name and the move that begins it."""

    action: str
    move: str


SWITCHES: dict[Power, Switch] = {
    "start": Switch("start", "power_on"),
    "stop": Switch("stop", "power_off"),
    "reboot_soft": Switch("reboot", "reboot"),
    "reboot_hard": Switch("reboot", "reboot_hard"),
    "pause": Switch("pause", "pause"),
    "unpause": Switch("unpause", "unpause"),
    "suspend": Switch("suspend", "suspend"),
    "resume": Switch("resume", "resume"),
}


def switch(context: RequestContext, instance_id: uuid.UUID | str, power: Power) -> Instance:
    """Order a change of power.  Raises NotFoundError, InstanceBusyError, InstanceLockedError, UnavailableError when its
    host is down.
    """
    verb = SWITCHES[power]
    return begin(context, instance_id, Deed(verb.action, verb.move, lambda _: PowerRequest(action=power)))


def start(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Power a stopped server on.  Raises as ``switch``."""
    return switch(context, instance_id, "start")


def stop(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Shut an active server down: the guest is asked, then forced.  Raises as ``switch``."""
    return switch(context, instance_id, "stop")


def reboot(context: RequestContext, instance_id: uuid.UUID | str, *, hard: bool = False) -> Instance:
    """Reboot a server: soft asks the guest first, hard resets it.  Raises as ``switch``."""
    return switch(context, instance_id, "reboot_hard" if hard else "reboot_soft")


def trigger_crash_dump(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Make the guest's kernel dump itself, by an NMI; the server's state stays.  Raises as ``switch``."""
    started = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        check_lock(context, instance)
        if instance.task_state is not None or instance.vm_state not in _RUNNING or instance.host is None:
            raise InstanceBusyError("trigger_crash_dump", instance.id, instance.vm_state, instance.task_state)
        if not is_alive(instance.host, started):
            raise UnavailableError(HOST_AWAY)
        instance_actions.begin(context, instance.id, "trigger_crash_dump", started)
        notify(instance, "trigger_crash_dump.start", Note(context))
        body = PowerRequest(action="crash_dump")
        host_commands.send(instance.host.id, instance.id, instance.attempt, body, None)
    return instance


_RUNNING = {VmState.ACTIVE, VmState.PAUSED, VmState.RESCUED, VmState.RESIZED, VmState.ERROR}


def change_password(context: RequestContext, instance_id: uuid.UUID | str, password: str) -> Instance:
    """Set the administrator's password inside the guest, by its agent.

    Raises as ``switch``, and ConflictError when the image does not say that the guest has an agent.
    """

    def ask(instance: Instance) -> PasswordRequest:
        properties = instance.image_properties
        if not strutils.bool_from_string(properties.get("hw_qemu_guest_agent")):
            raise ConflictError(
                "The password cannot be set: the server's image has no guest agent (property hw_qemu_guest_agent)."
            )
        return PasswordRequest(user=str(properties.get("os_admin_user") or "root"), password=password)

    return begin(context, instance_id, Deed("changePassword", "change_password", ask))
