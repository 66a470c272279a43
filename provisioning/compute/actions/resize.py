"""Resize a server on its own host, and confirm the resize.

From the request until the confirmation or revert, the larger of both flavors counts in the project's quota and is
allocated on the host, so that a revert cannot fail for lack of resources. ``Instance.old_flavor`` is the new flavor
until the host has resized the guest, and the previous one afterwards.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic

import msgspec
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import (
    CommandBody,
    ConfirmResizeRequest,
    ReceiveGuestRequest,
    ResizeRequest,
    SendGuestRequest,
)
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext, system_context
from provisioning.common.errors import InvalidInputError, NovellaError, UnavailableError
from provisioning.compute.actions.base import BROKE, FAILED, HOST_AWAY, B, Ending, HostAction, Prepared, R, Stage
from provisioning.compute.actions.power import Start
from provisioning.compute.actions.resize_checks import (
    claim_on_host,
    discard_earlier,
    is_elsewhere,
    refuse,
    requested_size,
    undo_resize,
)
from provisioning.compute.actions.ways import Button
from provisioning.compute.errors import InstanceBusyError, NoRoomError
from provisioning.compute.flavors.sizes import quota_held
from provisioning.compute.host_link.guest_agent import shutdown_seconds
from provisioning.compute.host_link.guest_spec import flavor_ref, guest_spec
from provisioning.compute.host_link.outcome import Outcome, silent_since
from provisioning.compute.launch.decisions import NO_VALID_HOST
from provisioning.compute.models import Instance, InstanceFault
from provisioning.compute.moves import cold
from provisioning.compute.moves.begin import begin_move, may_move, move_request
from provisioning.compute.moves.hosts import leave_second
from provisioning.compute.records import instance_actions
from provisioning.compute.records.migration_records import RESIZE, open_migration, set_migration
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, Transition, VmState
from provisioning.ec2 import given
from provisioning.hosts.selectors import is_alive
from provisioning.quotas.services.sizes import grow, shrink

ELSEWHERE = "No other host has capacity for it:"
NEVER = "Instance has not been resized."
STOP, START = "stop", "start"
NOT_RESTORED = "not_restored"
"""Code of a host's report: the guest could not be restored to its previous state."""
ON = {PowerState.RUNNING, PowerState.PAUSED}
SETTLED: dict[str, Any] = {"old_flavor": None, "resized_at": None, "previous_vm_state": ""}

BATCH = 100


@dataclass(frozen=True, slots=True)
class ResizeTo:
    """Parameters of a resize: a flavor's id, and the new disk config ``AUTO`` or ``MANUAL``; None: unchanged."""

    flavor_id: str
    disk_config: str | None = None


class SizeAction(HostAction[R, B], Generic[R, B]):
    """Base class of the resize actions. They update the migration record and release resources at their end."""

    migration: ClassVar[tuple[str, str, str]]
    """Status of the migration record during the action, after success and after a failure."""
    timeout = "BUILD_TIMEOUT"

    def start(self, context: RequestContext, instance: Instance, request: R, started: datetime) -> Instance:
        """Begin, and set the status of the migration record."""
        moved = super().start(context, instance, request, started)
        set_migration(moved.id, self.migration[0])
        return moved

    def end(self, instance: Instance, body: B, outcome: Outcome) -> Instance | None:
        """End the task and its migration record, and release resources that the server no longer holds."""
        moved = super().end(instance, body, outcome)
        if moved is not None:
            set_migration(moved.id, self.migration[1 if outcome.well else 2])
            if self.has_one_size(outcome):
                undo_resize(moved)
            finish_change(moved)
        return moved

    def has_one_size(self, outcome: Outcome) -> bool:
        """Whether only the server's current flavor counts after the end of the task."""
        return outcome.well


class Resize(SizeAction[ResizeTo, ResizeRequest]):
    """Resize a server on its host.

    As in Nova, the request is accepted when the host lacks the resources. The resize has then failed when the request
    returns: the server is unchanged, and its action and its fault contain the reason.
    """

    key = record = api = notification = "resize"
    done = "Resized"
    doing = "Preparing to resize"
    rule = "os_compute_api:servers:resize"
    rule_description = "Resize a server."
    takes_request = True
    from_states, task = (VmState.ACTIVE, VmState.STOPPED), TaskState.RESIZE_PREP
    stages = (
        Stage("migrate_disk", TaskState.RESIZE_MIGRATING, "Resizing or moving"),
        Stage("disk_migrated", TaskState.RESIZE_MIGRATED, "Moving to other hardware", of_volume=True),
        Stage("finish_resize", TaskState.RESIZE_FINISH, "Finishing the resize"),
    )
    ends = {"resized": VmState.RESIZED}
    badly = BROKE
    status = {VmState.ACTIVE: "RESIZE", VmState.STOPPED: "RESIZE"}
    heavy_io = remakes_guest = True
    sends = {
        "resize": ("resize_prep.start",),
        "migrate_disk": ("resize_prep.end", "resize.start"),
        "resized": ("resize.end", "resize_finish.start", "resize_finish.end"),
        "disk_migrated": ("resize.end", "resize_finish.start"),
        "moved": ("resize_finish.end",),
    }
    body = ResizeRequest
    migration = ("migrating", "finished", "error")

    def transitions(self) -> Iterable[Transition]:
        """Return the transitions of a resize on one host, of a cold move, and of the return after a failed move."""
        yield from super().transitions()
        returning = TaskState.RESIZE_REVERTING
        for vm in self.from_states:
            yield Transition("finish_resize", (vm, TaskState.RESIZE_MIGRATING), (vm, TaskState.RESIZE_FINISH))
            yield Transition("moved", (vm, TaskState.RESIZE_FINISH), (VmState.RESIZED, None))
            for task in cold.MOVING:
                yield Transition("move_back", (vm, task), (vm, returning))
            yield Transition("move_failed", (vm, returning), (vm, None))
            yield Transition(BROKE, (vm, returning), (VmState.ERROR, None))

    def awaits(self, body: CommandBody) -> bool:
        return isinstance(body, ResizeRequest | SendGuestRequest | ReceiveGuestRequest)

    def recorded_as(self, instance: Instance) -> str:
        return cold.record_of(instance) if cold.is_moving(instance) else self.record

    def end(self, instance: Instance, body: CommandBody, outcome: Outcome) -> Instance | None:
        """End the resize, or the step of a cold move."""
        if isinstance(body, SendGuestRequest):
            return cold.sent(instance, body, outcome)
        if isinstance(body, ReceiveGuestRequest):
            moved = cold.received(instance, outcome)
            if moved is not None:
                finish_change(moved)
            return moved
        return super().end(instance, body, outcome) if isinstance(body, ResizeRequest) else None

    def overdue(self, instance: Instance) -> None:
        """End the resize without a report, or the step of a cold move."""
        if cold.is_moving(instance):
            cold.overdue(instance, silent_since(instance.updated_at))
        else:
            super().overdue(instance)

    def forced_down(self, instance: Instance) -> None:
        """End the resize, or the step of a cold move, if it waits for the host."""
        if cold.is_moving(instance):
            cold.forced_down(instance)
        else:
            super().forced_down(instance)

    def start(self, context: RequestContext, instance: Instance, request: ResizeTo, started: datetime) -> Instance:
        """Begin a resize:

        1. checks;
        2. the transition;
        3. the larger of both flavors in the quota;
        4. migration and action records;
        5. allocation on the host;
        6. the command.

        If its host lacks the resources, the server is resized on another host, if that is enabled
        (``RESIZE_ON_OTHER_HOSTS``) and a host has the resources. Also raises InvalidInputError (``flavorRef``) and
        OverQuotaError.
        """
        if not self.offered(instance):
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
        state.lock([instance.id])
        flavor = requested_size(context, instance, request.flavor_id)
        host = instance.host
        if host is None or not is_alive(host, started):
            raise UnavailableError(HOST_AWAY)
        discard_earlier(instance, host)
        columns: dict[str, Any] = {"old_flavor": flavor, "previous_vm_state": instance.vm_state}
        if request.disk_config is not None:
            columns["disk_config"] = request.disk_config
        moved = self.enter(context, instance, Prepared(columns))
        grow(moved.project_id, moved.id, quota_held(moved.flavor, flavor))
        self.write_begin(context, moved, started)
        refusal = claim_on_host(moved, host)
        if refusal and settings.RESIZE_ON_OTHER_HOSTS and may_move(moved):
            elsewhere = begin_move(context, moved, move_request(moved, flavor=flavor), RESIZE)
            if isinstance(elsewhere, Instance):
                return elsewhere
            refusal = f"{refusal} {ELSEWHERE} {elsewhere}"
        open_migration(context, moved, self.record, flavor)
        if refusal:
            return refuse(moved, refusal)
        sent = state.advance(moved, "migrate_disk", attempt=moved.attempt)
        if sent is None:
            raise InstanceBusyError(self.record, moved.id, moved.vm_state, moved.task_state)
        set_migration(sent.id, self.migration[0])
        self.send(host, sent, self.command(sent, Prepared()))
        return sent

    def command(self, instance: Instance, prepared: Prepared) -> ResizeRequest:
        """Describe the guest with the new flavor."""
        spec = guest_spec(instance)
        return ResizeRequest(
            instance=msgspec.structs.replace(spec, flavor=flavor_ref(instance.old_flavor or instance.flavor)),
            old_flavor=spec.flavor,
            start=instance.vm_state == VmState.ACTIVE,
            timeout=shutdown_seconds(instance),
        )

    def finished(self, instance: Instance, body: ResizeRequest, outcome: Outcome) -> Ending:
        """Exchange the flavors after success, and wait for the confirmation; after a failure the server is unchanged.

        If the state of the guest is unknown, the server is set to ERROR and holds the larger of both flavors.
        """
        if outcome.well:
            columns = {"flavor": instance.old_flavor, "old_flavor": instance.flavor, "resized_at": timezone.now()}
            return Ending(columns=columns)
        return Ending(BROKE) if _lost(outcome) else Ending(FAILED, SETTLED)

    def has_one_size(self, outcome: Outcome) -> bool:
        return not outcome.well and not _lost(outcome)


class ConfirmResize(SizeAction[None, ConfirmResizeRequest]):
    """Discard the data kept for a revert. Raises InvalidInputError when the server was never resized."""

    key, record, api = "confirm_resize", "confirmResize", "confirmResize"
    done = "Resize confirmed"
    doing = "Confirming the resize"
    rule = "os_compute_api:servers:confirm_resize"
    rule_description = "Confirm a resize."
    from_states, task = (VmState.RESIZED,), TaskState.RESIZE_CONFIRMING
    ends = {"resize_confirmed": VmState.ACTIVE, "resize_confirmed_stopped": VmState.STOPPED}
    notification = "resize_confirm"
    body = ConfirmResizeRequest
    migration = ("confirming", "confirmed", "finished")
    button = Button(
        90,
        "confirm",
        "Confirm",
        "check-lg",
        "Confirm the resize or migration of {name}?",
        "The data kept for a revert is deleted.",
        "{name} stays as it is now.",
    )

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        """Begin. After a move the confirmation ends immediately, without a command to the server's host; the previous
        host gets the command to remove the server when it is up.
        """
        if instance.old_flavor is None or not is_elsewhere(instance):
            return super().start(context, instance, request, started)
        moved = self.enter(context, instance, Prepared())
        self.write_begin(context, moved, started)
        end = "resize_confirmed" if PowerState(moved.power_state) in ON else "resize_confirmed_stopped"
        ended = state.advance(moved, end, attempt=moved.attempt, changes=SETTLED)
        if ended is None:
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
        set_migration(ended.id, self.migration[1])
        shrink(ended.id, quota_held(ended.flavor))
        leave_second(ended)
        instance_actions.finish(ended.id, self.record)
        finish_change(ended)
        return ended

    def command(self, instance: Instance, prepared: Prepared) -> ConfirmResizeRequest:
        size_before(instance)
        return ConfirmResizeRequest()

    def finished(self, instance: Instance, body: ConfirmResizeRequest, outcome: Outcome) -> Ending:
        """Release the larger flavor; a failed confirmation can be repeated."""
        if not outcome.well:
            return Ending(columns={"resized_at": timezone.now()})
        return Ending("resize_confirmed" if outcome.power in ON else "resize_confirmed_stopped", SETTLED)


def resize(
    context: RequestContext, instance_id: uuid.UUID | str, flavor_id: str, *, disk_config: str | None = None
) -> Instance:
    """Resize a server. Raises the errors of host actions, InvalidInputError (``flavorRef``) and OverQuotaError."""
    return Resize.begin(context, instance_id, ResizeTo(flavor_id, disk_config))


def finish_change(instance: Instance) -> None:
    """Continue a ``change_type``: confirm the resize or, if requested, start the server after the confirmation."""
    if instance.task_state is not None or (requested := given.value_of(instance.id, given.AFTER_RESIZE)) is None:
        return
    try:
        with transaction.atomic():
            if instance.vm_state == VmState.RESIZED:
                ConfirmResize.begin(system_context(), instance.id)
                return
            given.forget(instance.id, given.AFTER_RESIZE)
            if requested == START and instance.vm_state == VmState.STOPPED:
                Start.begin(system_context(), instance.id)
    except NovellaError:  # the host is down: a job confirms the resize later
        return


def _lost(outcome: Outcome) -> bool:
    """Whether a failed resize left the guest in an unknown state."""
    return outcome.silent or outcome.code == NOT_RESTORED


def size_before(instance: Instance) -> dict[str, Any]:
    if instance.old_flavor is None:
        raise InvalidInputError(NEVER)
    before: dict[str, Any] = instance.old_flavor
    return before


def change_type(context: RequestContext, instance_id: uuid.UUID | str, flavor_id: str) -> Instance:
    """Resize a stopped server and confirm the resize automatically, inside the caller's transaction.

    Raises the errors of ``resize``, and NoRoomError where ``resize`` would only record a failure.
    """
    moved = resize(context, instance_id, flavor_id)
    if moved.task_state is None:
        fault = InstanceFault.objects.filter(instance_id=moved.id).order_by("-id").values_list("message", flat=True)[:1]
        raise NoRoomError(next(iter(fault), NO_VALID_HOST))
    given.keep(moved.project_id, moved.id, {given.AFTER_RESIZE: STOP})
    return moved


@transaction.atomic
def start_after_resize(instance: Instance) -> bool:
    """Request a start of the server after its ``change_type`` in progress; False when no ``change_type`` is in
    progress.
    """
    state.lock([instance.id])
    requested = given.value_of(instance.id, given.AFTER_RESIZE)
    if requested == STOP:
        given.keep(instance.project_id, instance.id, {given.AFTER_RESIZE: START})
    return requested is not None


def confirm_changed_types() -> None:
    """Confirm the resizes of ``change_type`` that could not be confirmed when they ended because the host was down."""
    waiting = Instance.objects.filter(vm_state=VmState.RESIZED, task_state=None)
    for instance in waiting.filter(pk__in=given.resources_with(given.AFTER_RESIZE)).order_by("resized_at")[:BATCH]:
        with transaction.atomic():
            state.lock([instance.id])
            finish_change(Instance.objects.get(pk=instance.pk))
