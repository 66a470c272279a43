"""Base classes of server actions: the declaration from which all tables derive, and the code that begins and ends
actions that a host carries out.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import decode_command_body
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import UnavailableError
from provisioning.common.tasks import Task
from provisioning.compute import selectors
from provisioning.compute.actions.ways import Button, DrainWay
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.host_link.allocations import raise_attempt
from provisioning.compute.host_link.guest_agent import check_guest_agent, has_guest_agent
from provisioning.compute.host_link.outcome import Outcome, silent_since
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, Transition, VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.identity import policy
from provisioning.identity.policies.base import MEMBER

HOST_AWAY = "The server's host does not answer. Try again when it is back."
COULD_NOT = "The host could not complete the action."
FAILED, BROKE = "action_failed", "action_broke"
"""Transitions of a failed task: back to the previous state, or to ERROR when the state of the guest is unknown."""

R = TypeVar("R")
"""Type of an action's request; None for actions without parameters."""
B = TypeVar("B", bound=CommandBody)
"""The command that a host carries out."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The transition of an action into a later task, while the host still carries out the command."""

    transition: str
    task: TaskState
    doing: str
    """Label of the task on pages."""
    of_volume: bool = False
    """Whether the task waits for a volume; during it the server has no unfinished command."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of ``HostAction.prepare``: columns to change with the first transition, and data for the command.

    ``detail`` is stored in the first step of the action record. ``image_id`` is the image that is created.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    detail: Mapping[str, str] = field(default_factory=dict)
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a task: the transition (None: the action's default one) and the columns that change with it."""

    transition: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


class ServerAction(ABC, Generic[R]):
    """Base class of everything that can be done to a server."""

    key: ClassVar[str]
    """Name in the registry; also the name of the transition that begins the action, if it has one."""
    record: ClassVar[str]
    """Nova's name of the action in instance action records."""
    done: ClassVar[str] = ""
    """Label of the finished record on pages, such as ``Paused``; empty: another action with this record has one."""
    api: ClassVar[str] = ""
    """Name in the body of ``POST /servers/{id}/action``; empty: not available there."""
    rule: ClassVar[str] = ""
    """Name of the policy rule."""
    rule_check: ClassVar[str] = MEMBER
    """The rule's default, in oslo.policy's language."""
    rule_description: ClassVar[str] = ""
    """The rule's description, one sentence; empty: the action uses the rule of another action."""
    notification: ClassVar[str] = ""
    """Nova's name of the action's notifications, without ``instance.`` and phase; empty: none are sent."""
    button: ClassVar[Button | None] = None
    way: ClassVar[DrainWay | None] = None
    """How the action frees the server's host; None: it does not."""
    takes_request: ClassVar[bool] = False
    """Whether a request has parameters besides the server."""
    heeds_lock: ClassVar[bool] = True
    """Whether a lock of the server prevents the action, unless the caller may override locks."""

    @classmethod
    def begin(
        cls,
        context: RequestContext,
        instance_id: uuid.UUID | str,
        request: R = None,  # type: ignore[assignment] # None for actions without a request
    ) -> Instance:
        """Begin the action, in one transaction, and return the server as it is afterwards.

        Raises NotFoundError, InstanceLockedError, InstanceBusyError, and the errors of the action itself.
        """
        return cls().perform(context, instance_id, request)

    @abstractmethod
    def perform(self, context: RequestContext, instance_id: uuid.UUID | str, request: R) -> Instance:
        """Implement ``begin``; overridden by actions."""

    def offered(self, instance: Instance) -> bool:
        """Whether pages offer the action for a server in this state."""
        return True

    def why_not(self, instance: Instance) -> str:
        """Return why the action is not offered, as a clause about the server."""
        return "it is busy or in another state"

    def transitions(self) -> Iterable[Transition]:
        """Return the state transitions that the action adds."""
        return ()


class HostAction(ServerAction[R], Task[Instance], Generic[R, B]):
    """An action that the server's host carries out.

    It begins with a transition into ``task``, an action record and a durable command, in one transaction. The host's
    report or the deadline ends it. An action with ``task`` None changes no state and runs alongside the server's tasks.
    """

    from_states: ClassVar[tuple[VmState, ...]] = ()
    task: ClassVar[TaskState | None]
    doing: ClassVar[str] = ""
    """Label of the task on pages, such as ``Pausing``."""
    stages: ClassVar[tuple[Stage, ...]] = ()
    ends: ClassVar[Mapping[str, VmState | None]] = {}
    """Transition → new vm_state; None: the vm_state is unchanged. The first entry is the default end of a successful
    action.
    """
    badly: ClassVar[str] = FAILED
    timeout: ClassVar[str]
    """Name of the setting with the timeout of each task, in seconds."""
    heavy_io: ClassVar[bool] = False
    """Whether the action causes heavy disk I/O on the host."""
    body: ClassVar[type[CommandBody]]
    """Type of the command that is sent."""
    status: ClassVar[Mapping[VmState, str]] = {}
    """vm_state → ``status`` in the API during the action, where it differs from the default."""
    remakes_guest: ClassVar[bool] = False
    """Whether the action changes the guest itself. If so, it raises the server's attempt, unless another command is
    unfinished. After a restore of the records, the host's newer attempt then shows that the records lack this change.
    """
    two_hosts: ClassVar[bool] = False
    """Whether the task waits for commands to two hosts, of which either may have ended."""
    needs_agent: ClassVar[str] = ""
    """Start of the error message when the image has no guest agent; empty: no agent is needed."""
    keeps_image: ClassVar[bool] = True
    """Whether an image created by the action is kept when the action is aborted after the upload."""
    sends: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Transition → notifications; empty: ``<notification>.start`` and ``<notification>.end`` are sent."""
    error: ClassVar[str] = ""
    """Notification of a failure; empty: ``<notification>.error``."""

    # ----- declarations and values derived from them ------------------------------------------------------------------

    def tasks(self) -> tuple[TaskState, ...]:
        """Return ``task`` and the tasks of the stages."""
        return () if self.task is None else (self.task, *(stage.task for stage in self.stages))

    def transitions(self) -> Iterable[Transition]:
        """Return the transitions for beginning, stages and ends, from every state in ``from_states``."""
        if self.task is None:
            return
        for vm in self.from_states:
            yield Transition(self.key, (vm, None), (vm, self.task))
            before = self.task
            for stage in self.stages:
                yield Transition(stage.transition, (vm, before), (vm, stage.task))
                before = stage.task
            for task in self.tasks():
                for name, target in self.ends.items():
                    yield Transition(name, (vm, task), (target or vm, None))
                yield Transition(FAILED, (vm, task), (vm, None))
                yield Transition(BROKE, (vm, task), (VmState.ERROR, None))

    def offered(self, instance: Instance) -> bool:
        """Whether the server has no task, is in one of ``from_states``, and has the guest agent if one is needed."""
        at_rest = instance.task_state is None and instance.vm_state in self.from_states
        return at_rest and not self._lacks_agent(instance)

    def why_not(self, instance: Instance) -> str:
        return "it has no guest agent" if self._lacks_agent(instance) else super().why_not(instance)

    def _lacks_agent(self, instance: Instance) -> bool:
        return bool(self.needs_agent) and not has_guest_agent(instance)

    def notified_tasks(self) -> tuple[TaskState, ...]:
        """Return the tasks whose failure sends the action's error notification."""
        return self.tasks()

    def awaits(self, body: CommandBody) -> bool:
        """Whether the action's task waits for the end of this command."""
        return isinstance(body, self.body)

    # ----- overridden by actions --------------------------------------------------------------------------------------

    def prepare(self, context: RequestContext, instance: Instance, request: R) -> Prepared:
        """Validate the request and return the changes; writes nothing."""
        return Prepared()

    @abstractmethod
    def command(self, instance: Instance, prepared: Prepared) -> B:
        """Build the command. ``instance`` is the server after the first transition."""

    def finished(self, instance: Instance, body: B, outcome: Outcome) -> Ending:
        """Return how the task ends; called after the host's report or a timeout."""
        return Ending()

    def recorded_as(self, instance: Instance) -> str:
        """Return the name of the action record of the server's task."""
        return self.record

    def progressed(self, instance: Instance, steps: set[str]) -> None:
        """Process progress on the host; ``steps`` are the steps that have ended. Only for actions with stages."""

    def counted(self, instance: Instance, detail: Mapping[str, str]) -> None:
        """Process the number of bytes that a host has transferred; untrusted."""

    def abandoned(self, instance: Instance, body: B) -> None:
        """Process the end of a command that no task waits for."""

    # ----- beginning --------------------------------------------------------------------------------------------------

    @when_broken_off
    def perform(self, context: RequestContext, instance_id: uuid.UUID | str, request: R) -> Instance:
        """Begin the action; see ``begin``.

        Also raises UnavailableError when the host is down, and ConflictError when a required guest agent is missing.
        """
        started = timezone.now()
        with transaction.atomic():
            instance = self.find(context, instance_id)
            if self.heeds_lock:
                check_lock(context, instance)
            if self.needs_agent:
                check_guest_agent(instance, self.needs_agent)
            return self.start(context, instance, request, started)

    def find(self, context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
        """Return the server, inside the transaction. Raises NotFoundError."""
        return selectors.instance_for(context, instance_id)

    def start(self, context: RequestContext, instance: Instance, request: R, started: datetime) -> Instance:
        """Prepare the action and carry it out, inside the caller's transaction."""
        return self.carry_out(context, instance, self.prepare(context, instance, request), started)

    def carry_out(self, context: RequestContext, instance: Instance, prepared: Prepared, started: datetime) -> Instance:
        """Change the state, write the action record and send the command, inside the caller's transaction."""
        moved = self.enter(context, instance, prepared)
        host = self.host_of(moved, started)
        self.write_begin(context, moved, started, prepared.detail)
        self.send(host, moved, self.command(moved, prepared))
        return moved

    def enter(self, context: RequestContext, instance: Instance, prepared: Prepared) -> Instance:
        """Apply the first transition. Raises InstanceBusyError."""
        was, before = (instance.vm_state, instance.task_state), instance.attempt
        note, columns = Note(context, image_id=prepared.image_id), prepared.columns
        if self.remakes_guest and not host_commands.unfinished(instance.id).exists():
            columns = {"attempt": before + 1, "guest_attempt": instance.guest_attempt or before, **columns}
        moved = state.advance(instance, self.key, attempt=before, changes=columns, note=note)
        if moved is None:
            raise InstanceBusyError(self.record, instance.id, *was)
        if moved.attempt != before and self.remakes_guest:
            raise_attempt(moved.id, before, moved.attempt)
        return moved

    def host_of(self, instance: Instance, now: datetime) -> Host:
        """Return the server's host. Raises InstanceBusyError without a host, UnavailableError when the host is down."""
        if instance.host is None:
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, None)
        if not is_alive(instance.host, now):
            raise UnavailableError(HOST_AWAY)
        return instance.host

    def write_begin(
        self, context: RequestContext, instance: Instance, started: datetime, detail: Mapping[str, str] | None = None
    ) -> InstanceAction:
        """Write the action record with its first step."""
        return write_begin(context, instance, self.record, started, detail)

    def send(self, host: Host, instance: Instance, body: CommandBody) -> None:
        """Send the command; it has the task's deadline."""
        host_commands.send(host.id, instance.id, instance.attempt, body, instance.task_deadline)

    # ----- ending -----------------------------------------------------------------------------------------------------

    def end(self, instance: Instance, body: B, outcome: Outcome) -> Instance | None:
        """End the task, in a transaction that has locked the server.

        Also called after a timeout (``outcome.silent``), when the host may still carry out the command. Returns the
        updated server, or None when the server no longer has the task.
        """
        ending = self.finished(instance, body, outcome)
        ordinary = next(iter(self.ends)) if outcome.well else self.badly
        columns: dict[str, Any] = {} if outcome.power is None else {"power_state": int(outcome.power)}
        if self.remakes_guest and outcome.well:
            columns["guest_attempt"] = None
        fault = "" if outcome.well else outcome.message or COULD_NOT
        moved = state.advance(
            instance,
            ending.transition or ordinary,
            attempt=instance.attempt,
            changes={**columns, **ending.columns},
            note=Note(fault=fault, cause=outcome.code, image_id=getattr(body, "image_id", "")),
        )
        if moved is None:
            return None
        if not outcome.well:
            record_fault(moved, fault, details=f"{self.record}: {outcome.code}", host_name=moved.host_name)
        self.write_end(moved, instance_actions.current(moved.id, self.record), outcome)
        return moved

    def write_end(self, instance: Instance, row: InstanceAction | None, outcome: Outcome) -> None:
        """Add the host's step to the action record and close it."""
        if row is None:
            return
        failure = None if outcome.well else outcome.message or COULD_NOT
        step = instance_actions.Step(
            f"compute_{self.record}",
            max(outcome.begun_at, row.started_at),
            outcome.ended_at,
            host=instance.host_name,
            failure=failure,
        )
        written = instance_actions.record(row, instance.attempt, step)
        self.close(row, failure)
        state.announce_steps(instance, written)

    def close(self, row: InstanceAction, failure: str | None) -> None:
        """Close the action record, and older open records of the same action."""
        instance_actions.finish(row.instance_id, self.record, message=failure)

    def overdue(self, instance: Instance) -> None:
        """End a task whose host has not reported in time, and withdraw its command: later reports are ignored."""
        command = host_commands.of_task(instance.id, instance.attempt)
        silent = silent_since(command.created_at if command is not None else instance.updated_at)
        body = decode_command_body(command.body) if command is not None else None
        if body is not None and self.awaits(body):
            self.end(instance, body, silent)  # type: ignore[arg-type]
        else:
            note = Note(fault=silent.message, cause=silent.code)
            moved = state.advance(instance, self.badly, attempt=instance.attempt, note=note)
            if moved is not None:
                details = f"{self.record}: {silent.code}"
                record_fault(moved, silent.message, details=details, host_name=moved.host_name)
            instance_actions.finish(instance.id, self.record, message=silent.message)
        host_commands.withdraw_of_tasks(instance.id)

    def forced_down(self, instance: Instance) -> None:
        """Process that the server's host, or the second host of its move, is forced down, inside the caller's
        transaction. It is called every few seconds until the task has ended.

        By default the task ends as at its deadline when the server's own host is forced down.
        """
        if instance.host is not None and instance.host.forced_down:
            self.overdue(instance)


def write_begin(
    context: RequestContext,
    instance: Instance,
    record: str,
    started: datetime,
    detail: Mapping[str, str] | None = None,
) -> InstanceAction:
    """Write an action record with its first step."""
    row = instance_actions.begin(context, instance.id, record, started)
    instance_actions.record(row, instance.attempt, instance_actions.Step(f"api_{record}", started, detail=detail or {}))
    return row


def check_lock(context: RequestContext, instance: Instance) -> None:
    """Raise InstanceLockedError for a locked server, unless the policy lets the caller override locks."""
    if instance.locked and not policy.allows(context, "os_compute_api:os-lock-server:unlock:unlock_override"):
        raise InstanceLockedError(instance.id, instance.locked_reason)
