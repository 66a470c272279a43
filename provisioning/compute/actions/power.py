"""Start, stop, reboot, pause and suspend servers, trigger crash dumps, and set passwords inside guests."""

import uuid
from datetime import datetime
from typing import ClassVar, Literal

from compute_agent.contract.commands import (
    CommandBody,
    CrashDumpRequest,
    PasswordRequest,
    PowerRequest,
    ReturnGuestRequest,
)
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.base import Ending, HostAction, Prepared
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.actions.ways import Button, DrainWay, each
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link.allocations import raise_attempt
from provisioning.compute.host_link.guest_agent import shutdown_seconds
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.host_link.release import leave_host, return_home
from provisioning.compute.models import Instance
from provisioning.compute.moves import cold, returning
from provisioning.compute.states import AT_REST, TaskState, VmState

NOT_RUNNING = "It does not run."
Power = Literal["start", "stop", "reboot_soft", "reboot_hard", "pause", "unpause", "suspend", "resume"]


class PowerAction(HostAction[None, PowerRequest]):
    """Base class of power actions, which have no request."""

    power: ClassVar[Power]
    timeout = "POWER_TIMEOUT"
    body = PowerRequest

    def awaits(self, body: CommandBody) -> bool:
        """Whether the command is the power command of this action."""
        return isinstance(body, PowerRequest) and body.action == self.power

    def command(self, instance: Instance, prepared: Prepared) -> PowerRequest:
        return PowerRequest(action=self.power, timeout=shutdown_seconds(instance))


class Start(PowerAction):
    """Power a stopped server on. After a failed evacuation, the disks that the other host may have acquired are first
    returned to the server's host. Raises ConflictError while the other host may have them open.
    """

    key, record, api, power = "power_on", "start", "os-start", "start"
    done = "Started"
    doing = "Starting"
    rule = "os_compute_api:servers:start"
    rule_description = "Start a server."
    from_states, task, ends = (VmState.STOPPED,), TaskState.POWERING_ON, {"powered_on": VmState.ACTIVE}
    notification = "power_on"
    button = Button(
        10,
        "start",
        "Start",
        "play-fill",
        "Start {name}?",
        "The guest boots from the disk it was stopped with.",
        "{name} is starting.",
    )

    def awaits(self, body: CommandBody) -> bool:
        return isinstance(body, ReturnGuestRequest) or super().awaits(body)

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        if not returning.is_needed(instance):
            return super().start(context, instance, request, started)
        if returning.held_elsewhere([instance]):
            raise ConflictError(returning.FENCE_BEFORE_START)
        before = instance.attempt
        columns = {"attempt": before + 1, "guest_attempt": instance.guest_attempt}
        moved = self.enter(context, instance, Prepared(columns=columns))
        self.host_of(moved, started)
        self.write_begin(context, moved, started)
        if returning.is_allocated_elsewhere(moved):  # that host was forced down during a task of the server
            leave_host(moved)
            return_home(moved)
        else:
            raise_attempt(moved.id, before, moved.attempt)
            block_devices.disconnect(moved.id)  # from where an earlier attempt has connected them
        cold.cast_move(moved)
        return moved

    def end(self, instance: Instance, body: PowerRequest | ReturnGuestRequest, outcome: Outcome) -> Instance | None:
        moved = super().end(instance, body, outcome)  # type: ignore[arg-type]
        if moved is not None and isinstance(body, ReturnGuestRequest) and outcome.well:
            cold.is_there(moved)
        return moved

    def finished(self, instance: Instance, body: PowerRequest | ReturnGuestRequest, outcome: Outcome) -> Ending:
        returned = isinstance(body, ReturnGuestRequest) and outcome.well
        return Ending(columns={"guest_attempt": None} if returned else {})


class Stop(PowerAction):
    """Shut a server down: first by asking the guest, then by force."""

    key, record, api, power = "power_off", "stop", "os-stop", "stop"
    done = "Stopped"
    doing = "Shutting down"
    rule = "os_compute_api:servers:stop"
    rule_description = "Stop a server."
    from_states, task = (VmState.ACTIVE, VmState.ERROR), TaskState.POWERING_OFF
    ends = {"powered_off": VmState.STOPPED}
    way = DrainWay(
        "stop",
        40,
        "Stop",
        "The server is stopped and stays on this host.",
        host_up=True,
        obstacles=each(lambda server: "" if server.vm_state == VmState.ACTIVE else NOT_RUNNING),
        request=lambda _: None,
        estimates=lambda: shutdown_seconds,
        moves=False,
    )
    notification = "power_off"
    button = Button(
        20,
        "stop",
        "Stop",
        "stop-fill",
        "Stop {name}?",
        "The guest is asked to shut down. It keeps its disk and addresses, and still counts in the quota.",
        "{name} is shutting down.",
    )


class Reboot(PowerAction):
    """Reboot by asking the guest."""

    key, record, api, power = "reboot", "reboot", "reboot", "reboot_soft"
    done = "Rebooted"
    doing = "Rebooting"
    rule = "os_compute_api:servers:reboot"
    rule_description = "Reboot a server."
    from_states, task, ends = (VmState.ACTIVE,), TaskState.REBOOTING, {"rebooted": VmState.ACTIVE}
    status = {VmState.ACTIVE: "REBOOT"}
    notification = "reboot"
    button = Button(
        30,
        "reboot",
        "Reboot",
        "arrow-clockwise",
        "Reboot {name}?",
        "The guest is asked to restart.",
        "{name} is rebooting.",
    )


class HardReboot(PowerAction):
    """Reboot by power cycling the guest. Raises ConflictError for a server that has to be started after a failed
    evacuation.
    """

    key, record, power = "reboot_hard", "reboot", "reboot_hard"
    doing = "Resetting"
    rule = "os_compute_api:servers:reboot"
    from_states, task = (*AT_REST, VmState.ERROR), TaskState.REBOOTING_HARD
    ends = {"rebooted_hard": VmState.ACTIVE}
    status = {VmState.ACTIVE: "HARD_REBOOT"}
    notification = "reboot"
    button = Button(
        40,
        "reset",
        "Reset",
        "lightning-charge",
        "Reset {name}?",
        "The power is cut and switched on again. Data that the guest has not written to disk is lost.",
        "{name} is being reset.",
        danger=True,
    )

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        if returning.is_needed(instance):
            raise ConflictError(returning.STOP_FIRST)
        return super().start(context, instance, request, started)


class Pause(PowerAction):
    """Pause the guest's vCPUs; its memory stays on the host."""

    key = record = api = power = notification = "pause"
    done = "Paused"
    doing = "Pausing"
    rule = "os_compute_api:os-pause-server:pause"
    rule_description = "Pause a server."
    from_states, task, ends = (VmState.ACTIVE,), TaskState.PAUSING, {"paused": VmState.PAUSED}
    button = Button(
        50,
        "pause",
        "Pause",
        "pause-fill",
        "Pause {name}?",
        "Its processors stop; it stays in the memory of its host.",
        "{name} is being paused.",
    )


class Unpause(PowerAction):
    """Unpause a paused guest."""

    key = record = api = power = notification = "unpause"
    done = "Unpaused"
    doing = "Unpausing"
    rule = "os_compute_api:os-pause-server:unpause"
    rule_description = "Unpause a server."
    from_states, task, ends = (VmState.PAUSED,), TaskState.UNPAUSING, {"unpaused": VmState.ACTIVE}
    button = Button(
        60, "unpause", "Unpause", "play-fill", "Unpause {name}?", "It continues where it was.", "{name} is unpaused."
    )


class Suspend(PowerAction):
    """Save the guest's memory to disk and power it off."""

    key = record = api = power = notification = "suspend"
    done = "Suspended"
    doing = "Saving its memory"
    rule = "os_compute_api:os-suspend-server:suspend"
    rule_description = "Suspend a server."
    from_states, task, ends = (VmState.ACTIVE,), TaskState.SUSPENDING, {"suspended": VmState.SUSPENDED}
    button = Button(
        70,
        "suspend",
        "Suspend",
        "moon",
        "Suspend {name}?",
        "Its memory is written to disk and its power is cut. It continues from there when resumed.",
        "{name} is being suspended.",
    )


class Resume(PowerAction):
    """Resume a suspended guest from its saved memory."""

    key = record = api = power = notification = "resume"
    done = "Resumed"
    doing = "Resuming"
    rule = "os_compute_api:os-suspend-server:resume"
    rule_description = "Resume a suspended server."
    from_states, task, ends = (VmState.SUSPENDED,), TaskState.RESUMING, {"resumed": VmState.ACTIVE}
    button = Button(
        80,
        "resume",
        "Resume",
        "sun",
        "Resume {name}?",
        "It continues where it was suspended.",
        "{name} is being resumed.",
    )


class ChangePassword(HostAction[str, PasswordRequest]):
    """Set the administrator's password through the guest agent; the request is the password."""

    key, record, api = "change_password", "changePassword", "changePassword"
    done = "Password set"
    doing = "Setting the password"
    rule = "os_compute_api:os-admin-password"
    rule_description = "Set the administrator's password of a server."
    takes_request = True
    needs_agent = "The password cannot be set"
    from_states, task = (VmState.ACTIVE,), TaskState.UPDATING_PASSWORD
    ends = {"password_changed": None}
    status = {VmState.ACTIVE: "PASSWORD"}
    timeout = "POWER_TIMEOUT"
    body = PasswordRequest

    def prepare(self, context: RequestContext, instance: Instance, request: str) -> Prepared:
        return Prepared(value=request)

    def command(self, instance: Instance, prepared: Prepared) -> PasswordRequest:
        """Use the user name of the image property ``os_admin_user``, by default ``root``."""
        user = str(instance.image_properties.get("os_admin_user") or "root")
        return PasswordRequest(user=user, password=prepared.value)


class CrashDump(TasklessAction[None, CrashDumpRequest]):
    """Inject an NMI, upon which the guest's kernel writes a crash dump; the server's state does not change."""

    key = record = api = notification = "trigger_crash_dump"
    done = "Crash dump triggered"
    rule = "os_compute_api:servers:trigger_crash_dump"
    rule_description = "Trigger a crash dump in a server."
    from_states = (VmState.ACTIVE, VmState.PAUSED, VmState.RESCUED, VmState.RESIZED, VmState.ERROR)
    timeout = "POWER_TIMEOUT"
    body = CrashDumpRequest
    one_at_a_time = True
    button = Button(
        118,
        "crash-dump",
        "Trigger crash dump",
        "bug",
        "Trigger a crash dump in {name}?",
        "The guest gets a non-maskable interrupt. Its kernel writes a dump and usually restarts.",
        "{name} got the interrupt for a crash dump.",
        danger=True,
    )

    def command(self, instance: Instance, prepared: Prepared) -> CrashDumpRequest:
        return CrashDumpRequest()


def reboot(context: RequestContext, instance_id: uuid.UUID | str, *, hard: bool = False) -> Instance:
    """Reboot a server; ``hard`` cuts its power. Raises the errors of host actions."""
    return (HardReboot.begin if hard else Reboot.begin)(context, instance_id)
