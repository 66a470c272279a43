"""Live migration: a running server moves to another host and keeps running."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.calls import CallError
from compute_agent.contract.commands import CommandBody
from compute_agent.contract.migration import (
    TIME_LIMIT,
    UNDECIDED,
    ControlMigrationCall,
    KeepLiveRequest,
    ReceiveLiveRequest,
    SendLiveRequest,
)
from compute_agent.contract.steps import LISTEN
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, UnavailableError
from provisioning.compute import selectors
from provisioning.compute.actions.base import COULD_NOT, FAILED, HOST_AWAY, HostAction, Prepared, check_lock
from provisioning.compute.actions.ways import DrainWay
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch.decisions import NO_VALID_HOST
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.compute.moves import live, volumes
from provisioning.compute.moves.cpu import with_cpus
from provisioning.compute.moves.estimates import LIVE, estimates_of
from provisioning.compute.moves.hosts import (
    claim_target,
    exchange,
    is_held_by_second,
    leave_second,
    second_of,
    set_bytes,
)
from provisioning.compute.moves.obstacles import live_obstacles
from provisioning.compute.moves.targets import rank_targets, why_none
from provisioning.compute.notifications import Note, notify
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.records.migration_records import LIVE_MIGRATION, OPEN, set_migration
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts import calls
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network import services as network

STILL_LEAVING = "A host still removes the server's data of an earlier move. Try again later."
TAKEN = "All suitable hosts were claimed by other servers concurrently. Try again."
NO_ADDRESS = "The host that should receive the server has no valid address."
ABORTED = "The migration was aborted."
LOST = "The hosts did not report the end of the migration."
ANSWER_WITHIN = 10.0
"""Seconds that a host has to answer a call."""


@dataclass(frozen=True, slots=True)
class LiveMigration:
    """Parameters of a live migration.

    ``host``: the only acceptable host; empty: the scheduler chooses. ``block_migration``: whether disks are copied;
    None: as needed.
    """

    host: str = ""
    block_migration: bool | None = None


class LiveMigrate(HostAction[LiveMigration, ReceiveLiveRequest]):
    """Move a running server to another host.

    1. Claim the target, and connect volumes and ports to it too. 2. The target prepares and listens
    (``ReceiveLiveRequest``). 3. The source sends (``SendLiveRequest``). 4. When the target reports that the guest runs
    there, the record moves with volumes and ports, and the source removes its part.

    Until then the server is on the source in the records. After a failure it continues there: the source resumes it by
    itself unless the target may have started it. In that case it stays paused until the target has reported, and
    resumes by a ``KeepLiveRequest`` if the target has not started it.
    """

    key = "live_migrate"
    record = "live-migration"
    api = "os-migrateLive"
    done = "Moved to other hardware"
    doing = "Moving to other hardware"
    rule = "os_compute_api:os-migrate-server:migrate_live"
    from_states, task = (VmState.ACTIVE, VmState.PAUSED), TaskState.MIGRATING
    ends = {"live_migrated": None}
    timeout = "LIVE_MIGRATION_TIMEOUT"
    heavy_io = True
    body = ReceiveLiveRequest
    status = {VmState.ACTIVE: "MIGRATING", VmState.PAUSED: "MIGRATING"}
    takes_request = True
    two_hosts = True
    notification = "live_migration_pre"
    sends = {
        "live_migrate": ("live_migration_pre.start",),
        "live_migrated": ("live_migration_post.end", "live_migration_post_dest.end"),
    }
    error = "live_migration_rollback.end"
    way = DrainWay(
        "live",
        10,
        "Live migration",
        "The server keeps running while it moves.",
        host_up=True,
        obstacles=live_obstacles,
        request=LiveMigration,
        estimates=estimates_of(LIVE),
        needs=with_cpus,
        unfit=live.unfit_targets,
    )

    def awaits(self, body: CommandBody) -> bool:
        return isinstance(body, ReceiveLiveRequest | SendLiveRequest | KeepLiveRequest)

    # ----- beginning --------------------------------------------------------------------------------------------------

    def start(self, context: RequestContext, instance: Instance, request: LiveMigration, started: datetime) -> Instance:
        """Begin, inside the caller's transaction.

        Raises InstanceBusyError, ConflictError when the server's host is down or the server cannot be migrated live,
        and InvalidInputError when no host can receive it.
        """
        source = self._source(instance, started)
        live.check_movable(instance, block_migration=request.block_migration)
        _check_host(instance, request.host, started)
        state.lock([instance.id])
        self._check_second(instance)
        move = live.move_request(instance, request.host)
        attempt = rank_targets(move)
        if not attempt.decision.ranked:
            raise InvalidInputError(NO_VALID_HOST + why_none(attempt, move), field="host")
        volumes.lock(instance.id)
        migration = claim_target(context, move, attempt, LIVE_MIGRATION, status="preparing", action=self.record)
        if migration is None:
            raise ConflictError(TAKEN)
        target = Host.objects.get(name=migration.dest_compute)
        columns = {
            "attempt": live.next_attempt(instance, target),
            "guest_attempt": instance.guest_attempt or instance.attempt,
        }
        moved = self.enter(context, instance, Prepared(columns))
        self.write_begin(context, moved, started, {"from": source.name, "to": target.name})
        network.bind_second(moved.id, target.name)
        body = self.command(moved, Prepared(value=target))
        if not volumes.connect(moved, target):
            self.send(target, moved, body)
        return moved

    def _check_second(self, instance: Instance) -> None:
        """Raise InstanceBusyError if another request has begun a move since the instance was read, and ConflictError
        while an earlier move is not cleaned up. The caller has locked the instance.
        """
        second = second_of(instance.id)
        if second is None:
            return
        if second.migration.status in OPEN:
            raise InstanceBusyError("os-migrateLive", instance.id, instance.vm_state, self.task)
        if is_held_by_second(instance):
            raise ConflictError(STILL_LEAVING)
        leave_second(instance)

    def go_on(self, instance: Instance, message: str = "") -> None:
        """Let the target prepare when all volumes are connected to it; ``message``: why one cannot be connected.

        The caller has locked the server. No effect for a server that does not wait for its volumes.
        """
        target = live.target_of(instance)
        if instance.task_state != TaskState.MIGRATING or target is None or live.is_prepared(instance):
            return
        if message:
            self.fail(instance, message, "volumes")
            return
        if not volumes.are_connected(instance):
            return
        try:
            body = self.command(instance, Prepared(value=target))
        except ConflictError as error:
            self.fail(instance, error.message, "image")
        else:
            self.send(target, instance, body)

    def _source(self, instance: Instance, now: datetime) -> Host:
        if instance.task_state is not None or instance.vm_state not in self.from_states or instance.host is None:
            raise InstanceBusyError("os-migrateLive", instance.id, instance.vm_state, instance.task_state)
        if not is_alive(instance.host, now):
            raise ConflictError(HOST_AWAY)
        return instance.host

    def command(self, instance: Instance, prepared: Prepared) -> ReceiveLiveRequest:
        """Build the command for the target, which is the prepared value."""
        if instance.host is None:
            raise InstanceBusyError("os-migrateLive", instance.id, instance.vm_state, None)
        return live.receive_request(instance, instance.host, prepared.value)

    # ----- on the way -------------------------------------------------------------------------------------------------

    def progressed(self, instance: Instance, steps: set[str]) -> None:
        """Let the source send the guest when the target listens."""
        target = live.target_of(instance)
        if LISTEN not in steps or target is None or instance.host is None or live.sent(instance) is not None:
            return
        row = instance_actions.current(instance.id, self.record)
        step = InstanceActionEvent.objects.filter(action=row, name=LISTEN, attempt=instance.attempt).first()
        body = live.send_request(instance.host, target, step.detail if step is not None else {})
        if body is None:
            self.fail(instance, NO_ADDRESS, "migration_failed")
            return
        host_commands.send(instance.host.id, instance.id, instance.attempt, body, instance.task_deadline)
        set_migration(instance.id, "running")
        notify(instance, "live_migration_pre.end")
        state.announce_all(instance, [{}])

    def counted(self, instance: Instance, detail: Mapping[str, str]) -> None:
        """Record the bytes that a host reports."""
        row = second_of(instance.id)
        if row is not None:
            set_bytes(row.migration, **live.bytes_of(detail))
            state.announce_all(instance, [{}])

    # ----- ending -----------------------------------------------------------------------------------------------------

    def end(self, instance: Instance, body: CommandBody, outcome: Outcome) -> Instance | None:
        """Process the end of one of the commands, in a transaction that has locked the server."""
        message = outcome.message or COULD_NOT
        if isinstance(body, ReceiveLiveRequest):
            return self._arrived(instance, outcome) if outcome.well else self._not_received(instance, outcome)
        if isinstance(body, KeepLiveRequest):
            return self.fail(instance, COULD_NOT, "migration_failed", outcome) if outcome.well else None
        if outcome.well:
            return None  # only the target's report says that the guest runs there
        if outcome.code == UNDECIDED:
            set_migration(instance.id, "post-migrating")
            if not live.may_arrive(instance):
                self._keep(instance)
            return None
        return self.fail(instance, message, outcome.code, outcome)

    def _arrived(self, instance: Instance, outcome: Outcome) -> Instance | None:
        """Move the record to the target, where the guest runs, and let the source remove its part."""
        target = live.target_of(instance)
        if target is None:
            return None
        changes: dict[str, Any] = {"host": target, "guest_attempt": None}
        if outcome.power is not None:
            changes["power_state"] = int(outcome.power)
        guest = instance.guest_attempt
        moved = state.advance(instance, "live_migrated", attempt=instance.attempt, changes=changes)
        if moved is None:
            return None
        volumes.switch(moved)
        exchange(moved, guest)
        network.bind_ports(moved.id, target.name)
        set_migration(moved.id, "completed")
        host_commands.withdraw_of_tasks(moved.id)
        leave_second(moved)
        self.write_end(moved, instance_actions.current(moved.id, self.record), outcome)
        return moved

    def _not_received(self, instance: Instance, outcome: Outcome) -> Instance | None:
        """End the task if the source's guest continues; otherwise let the source resume it, or wait for its report."""
        command = live.sent(instance)
        if command is None or (instance.host is not None and instance.host.forced_down):
            return self.fail(instance, outcome.message or COULD_NOT, outcome.code, outcome)
        if command.finished_at is not None:  # otherwise the source reports whether its guest goes on
            self._keep(instance)
        return None

    def _keep(self, instance: Instance) -> None:
        """Let the source resume the guest, which does not run on the target."""
        if instance.host_id is not None and not live.is_kept(instance):
            host_commands.send(
                instance.host_id, instance.id, instance.attempt, KeepLiveRequest(), instance.task_deadline
            )

    def fail(self, instance: Instance, message: str, code: str, outcome: Outcome | None = None) -> Instance | None:
        """End the task; the server stays on the source, and the target removes its part."""
        aborted, now = code == "stopped", timezone.now()
        cancelled = aborted or code == TIME_LIMIT
        reason = ABORTED if aborted else message
        ended = Outcome(
            well=False, begun_at=outcome.begun_at if outcome else now, ended_at=now, message=reason, code=code
        )
        columns = {"power_state": int(outcome.power)} if outcome is not None and outcome.power is not None else {}
        note = Note(fault=reason, cause=code)
        moved = state.advance(instance, FAILED, attempt=instance.attempt, changes=columns, note=note)
        if moved is None:
            return None
        volumes.drop(moved)
        network.bind_second(moved.id, "")
        host_commands.withdraw_of_tasks(moved.id)
        set_migration(moved.id, "cancelled" if cancelled else "error")
        leave_second(moved)
        if not aborted:
            record_fault(moved, reason, details=f"{self.record}: {code}", host_name=moved.host_name)
        self.write_end(moved, instance_actions.current(moved.id, self.record), ended)
        return moved

    def overdue(self, instance: Instance) -> None:
        """Wait for the hosts, which continue their commands when they are back, unless a host is forced down.

        A guest that may run on a host is neither removed nor started elsewhere without that host's report: an operator
        who has fenced the host forces it down.
        """
        if not self._is_decided(instance):
            state.extend_deadline(instance)

    def forced_down(self, instance: Instance) -> None:
        """End the migration, or let the source resume the guest, unless the guest may run on the other host, or the
        source has not reported whether it has sent the guest.
        """
        self._is_decided(instance)

    def _is_decided(self, instance: Instance) -> bool:
        """End the task if the guest certainly does not run on the target; return whether it has ended. If the source
        has kept the guest paused, it gets the command to resume it.
        """
        target, source, command = live.target_of(instance), instance.host, live.sent(instance)
        unknown = live.may_arrive(instance)
        if target is None or source is None or command is None or (source.forced_down and not unknown):
            self.fail(instance, LOST, "silent")
            return True
        if command.finished_at is not None and not unknown:
            self._keep(instance)
        return False

    def abandoned(self, instance: Instance, body: CommandBody) -> None:
        """Let the target remove its part of a migration whose task has ended."""
        leave_second(instance)


def _check_host(instance: Instance, name: str, now: datetime) -> None:
    """Raise InvalidInputError for a requested host that is unknown, the server's own, or down."""
    if not name:
        return
    target = Host.objects.filter(name=name).first()
    if target is None:
        raise InvalidInputError(f"Compute host {name} could not be found.", field="host")
    if target.id == instance.host_id:
        raise InvalidInputError(f"Unable to migrate instance ({instance.id}) to current host ({name}).", field="host")
    if not is_alive(target, now):
        raise InvalidInputError(f"Compute service of {name} is unavailable at this time.", field="host")


# ----- control --------------------------------------------------------------------------------------------------------


def abort_live_migration(
    context: RequestContext, instance_id: uuid.UUID | str, number: str, *, early: bool = True
) -> None:
    """Abort a live migration; the server continues where it is. ``early``: also before the transfer has begun.

    Raises NotFoundError, InstanceLockedError, InstanceBusyError, InvalidInputError or ConflictError when it cannot be
    aborted now, and UnavailableError when the host does not answer.
    """
    _control(context, instance_id, number, "abort", early=early)


def force_live_migration(context: RequestContext, instance_id: uuid.UUID | str, number: str) -> None:
    """Complete a live migration immediately. Raises the errors of ``abort_live_migration``."""
    _control(context, instance_id, number, "complete")


def _control(
    context: RequestContext,
    instance_id: uuid.UUID | str,
    number: str,
    verb: Literal["abort", "complete"],
    *,
    early: bool = False,
) -> None:
    instance = selectors.instance_for(context, instance_id)
    check_lock(context, instance)
    named = "abort live migration" if verb == "abort" else "force_complete"
    if instance.task_state != TaskState.MIGRATING or instance.host is None:
        raise InstanceBusyError(named, instance.id, instance.vm_state, instance.task_state)
    migration = live.live_migration_for(context, instance_id, number)
    if migration.status != "running" and not (early and migration.status == "preparing"):
        raise InvalidInputError(
            f"Migration {migration.id} state of instance {instance.id} is {migration.status}. Cannot {named} while the"
            " migration is in this state."
        )
    name = "live_migration_abort" if verb == "abort" else "live_migration_force_complete"
    if not _abort_unsent(context, instance, name):
        with transaction.atomic():
            notify(instance, f"{name}.start", Note(context))
        body = ControlMigrationCall(instance_id=str(instance.id), action=verb)
        answer = calls.call(instance.host.id, body, timeout=ANSWER_WITHIN)
        if isinstance(answer, CallError) and answer.code in {"unsupported", "not_found"}:
            raise ConflictError(f"Migration {migration.id} cannot be changed now: {answer.message}")
        if isinstance(answer, CallError):
            raise UnavailableError("The server's host could not change the migration. Try again.")
    with transaction.atomic():
        notify(instance, f"{name}.end", Note(context))


@transaction.atomic
def _abort_unsent(context: RequestContext, instance: Instance, name: str) -> bool:
    """End a migration whose guest is not being sent yet; return False if it is."""
    state.lock([instance.id])
    fresh = Instance.objects.select_related("host").get(id=instance.id)
    if fresh.task_state != TaskState.MIGRATING or live.sent(fresh) is not None:
        return False
    notify(fresh, f"{name}.start", Note(context))
    LiveMigrate().fail(fresh, ABORTED, "stopped")
    return True
