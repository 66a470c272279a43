"""What a server action is: its declaration, from which every table derives, and the engine that begins and ends those
that a host carries out.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import decode_command_body
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, UnavailableError
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors, state
from provisioning.compute.allocations import raise_attempt
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.faults import record_fault
from provisioning.compute.guest_agent import check_guest_agent, has_guest_agent
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.notifications import Note, notify
from provisioning.compute.outcome import Outcome, silent_since
from provisioning.compute.states import TaskState, Transition, VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.identity import policy
from provisioning.identity.policies.base import MEMBER

HOST_AWAY = "The server's host does not answer. Try again when it is back."
COULD_NOT = "The host could not do it."
FAILED, BROKE = "action_failed", "action_broke"
"""How a task ends badly: the server is where it was before, or in ERROR because nobody can say what is left."""

R = TypeVar("R")
"""What a request may say; None for actions without a word of their own."""
B = TypeVar("B", bound=CommandBody)
"""The command that a host carries out."""


@dataclass(frozen=True, slots=True)
class Button:
    """An action on a page: the label of its button, its icon, and what is asked and told before and after it."""

    position: int
    """Among the others: the lowest comes first."""
    name: str
    """Its word in the address of the page that asks."""
    label: str
    icon: str
    question: str
    consequence: str
    said: str
    """Shown when it has begun; ``{name}`` is the server's."""
    danger: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """A task that follows the action's first one while the host works: the transition into it."""

    transition: str
    task: TaskState
    doing: str
    """What pages call it while it lasts."""
    of_volume: bool = False
    """Whether it waits for a volume: no command about the server is open meanwhile."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What ``HostAction.prepare`` found: columns that change with the first transition, and what the command needs.

    ``detail`` stands in the first step of the action record; ``image_id`` is the image that is made.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    detail: Mapping[str, str] = field(default_factory=dict)
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a task ends: the transition, None for the action's ordinary one, and the columns that change with it."""

    transition: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


class ServerAction(ABC, Generic[R]):
    """One thing that can be done to a server."""

    key: ClassVar[str]
    """Its name in the registry, and that of the transition that begins it where it has one."""
    record: ClassVar[str]
    """Nova's name of it in the records of actions."""
    done: ClassVar[str] = ""
    """What pages call such a record: ``Paused``; empty: another action of the same record says it."""
    api: ClassVar[str] = ""
    """Its name in the body of ``POST /servers/{id}/action``; empty: it is not begun there."""
    rule: ClassVar[str] = ""
    """Its policy rule."""
    rule_check: ClassVar[str] = MEMBER
    """The rule's default, in oslo.policy's language."""
    rule_description: ClassVar[str] = ""
    """What the rule allows, one sentence; empty: it asks the rule of another action."""
    notification: ClassVar[str] = ""
    """Nova's name of its notifications, without ``instance.`` and phase; empty: none are sent."""
    button: ClassVar[Button | None] = None
    takes_request: ClassVar[bool] = False
    """Whether a request says more than which server."""

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
        """Do the work of ``begin``."""

    def offered(self, instance: Instance) -> bool:
        """Whether a page offers it for a server in this state."""
        return True

    def why_not(self, instance: Instance) -> str:
        """Return why it is not offered, as a clause about the server."""
        return "it is busy or in another state"

    def transitions(self) -> Iterable[Transition]:
        """Return the changes of state that it makes legal."""
        return ()


class HostAction(ServerAction[R], Generic[R, B]):
    """What a server's host carries out.

    It begins with a transition into ``task``, an action record and a durable command, in one transaction; the host's
    report ends it, or its deadline.  One with ``task`` None changes no state: it goes on beside the server's tasks.
    """

    from_states: ClassVar[tuple[VmState, ...]] = ()
    task: ClassVar[TaskState | None]
    doing: ClassVar[str] = ""
    """What pages call the task while it lasts: ``Pausing``."""
    stages: ClassVar[tuple[Stage, ...]] = ()
    ends: ClassVar[Mapping[str, VmState | None]] = {}
    """Transition → where it leads, None: back to where it began.  The first one is the ordinary good end."""
    badly: ClassVar[str] = FAILED
    timeout: ClassVar[str]
    """The setting that says how many seconds each of its tasks may take."""
    heavy_io: ClassVar[bool] = False
    """Whether it writes or reads much of the host's disks."""
    body: ClassVar[type[CommandBody]]
    """The command that is sent."""
    status: ClassVar[Mapping[VmState, str]] = {}
    """vm_state → the API's ``status`` while it goes on, where that differs from the usual one."""
    remakes_guest: ClassVar[bool] = False
    """Whether the guest is another one afterwards: the attempt rises, unless another command is on its way, so that a
    host shows by it when records that are restored later have lost the change.
    """
    heeds_lock: ClassVar[bool] = True
    needs_agent: ClassVar[str] = ""
    """What cannot be done without an agent inside the guest, as a refusal begins; empty: it is done without one."""
    keeps_image: ClassVar[bool] = True
    """Whether an image that was made by it and has its data stays when the action is cut off."""
    sends: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Transition → notifications, for actions that send others than ``<notification>.start`` and ``.end``."""

    # ----- declared, and derived from it ------------------------------------------------------------------------------

    def tasks(self) -> tuple[TaskState, ...]:
        """Return its task and those that follow."""
        return () if self.task is None else (self.task, *(stage.task for stage in self.stages))

    def transitions(self) -> Iterable[Transition]:
        """Return beginning, stages and ends, from every state it may begin from."""
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
        """Whether the server is at rest in a state from which it may begin, and has the agent that it needs."""
        at_rest = instance.task_state is None and instance.vm_state in self.from_states
        return at_rest and not self._lacks_agent(instance)

    def why_not(self, instance: Instance) -> str:
        return "it has no guest agent" if self._lacks_agent(instance) else super().why_not(instance)

    def _lacks_agent(self, instance: Instance) -> bool:
        return bool(self.needs_agent) and not has_guest_agent(instance)

    def notified_tasks(self) -> tuple[TaskState, ...]:
        """Return the tasks whose failure sends its error notification."""
        return self.tasks()

    def awaits(self, body: CommandBody) -> bool:
        """Whether its task waits for the end of this very command."""
        return isinstance(body, self.body)

    # ----- what an action says of itself ------------------------------------------------------------------------------

    def prepare(self, context: RequestContext, instance: Instance, request: R) -> Prepared:
        """Check the request against the server and say what changes; nothing is written yet."""
        return Prepared()

    @abstractmethod
    def command(self, instance: Instance, prepared: Prepared) -> B:
        """Make the command from the server as it is after the first transition."""

    def finished(self, instance: Instance, body: B, outcome: Outcome) -> Ending:
        """Say how the task ends when the host has reported or was silent for too long."""
        return Ending()

    def progressed(self, instance: Instance, steps: set[str]) -> None:
        """Hear which steps at the host have ended, for actions with stages."""

    def abandoned(self, instance: Instance, body: B) -> None:
        """Hear of the end of a command for which no task waits any more."""

    # ----- beginning --------------------------------------------------------------------------------------------------

    @when_broken_off
    def perform(self, context: RequestContext, instance_id: uuid.UUID | str, request: R) -> Instance:
        """Begin as every host action does.

        Raises UnavailableError as well, when the host does not answer, and ConflictError without the guest agent that
        the action needs.
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
        """Return the server, inside the transaction; NotFoundError."""
        return selectors.instance_for(context, instance_id)

    def start(self, context: RequestContext, instance: Instance, request: R, started: datetime) -> Instance:
        """Check, move, record and command, inside the caller's transaction."""
        return self.carry_out(context, instance, self.prepare(context, instance, request), started)

    def carry_out(self, context: RequestContext, instance: Instance, prepared: Prepared, started: datetime) -> Instance:
        """Move, record and command what is prepared, inside the caller's transaction."""
        moved = self.enter(context, instance, prepared)
        host = self.host_of(moved, started)
        self.write_begin(context, moved, started, prepared.detail)
        self.send(host, moved, self.command(moved, prepared))
        return moved

    def enter(self, context: RequestContext, instance: Instance, prepared: Prepared) -> Instance:
        """Make the first transition; InstanceBusyError."""
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
        """Return the server's host; InstanceBusyError when it has none, UnavailableError when it does not answer."""
        if instance.host is None:
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, None)
        if not is_alive(instance.host, now):
            raise UnavailableError(HOST_AWAY)
        return instance.host

    def write_begin(
        self, context: RequestContext, instance: Instance, started: datetime, detail: Mapping[str, str] | None = None
    ) -> InstanceAction:
        """Write the action record with its first step."""
        row = instance_actions.begin(context, instance.id, self.record, started)
        span = instance_actions.since(started)
        step = instance_actions.step(
            row, f"api_{self.record}", span, attempt=instance.attempt, detail=dict(detail or {})
        )
        instance_actions.write([step])
        return row

    def send(self, host: Host, instance: Instance, body: CommandBody) -> None:
        """Write the command; its deadline is the task's."""
        host_commands.send(host.id, instance.id, instance.attempt, body, instance.task_deadline)

    # ----- ending -----------------------------------------------------------------------------------------------------

    def end(self, instance: Instance, body: B, outcome: Outcome) -> Instance | None:
        """End the task, in a transaction in which the server is locked; called as well when its deadline has passed
        (``outcome.silent``): then the host may still do it.

        Returns the server as it is now, None when it is about something else.
        """
        ending = self.finished(instance, body, outcome)
        ordinary = next(iter(self.ends)) if outcome.well else self.badly
        columns: dict[str, Any] = {} if outcome.power is None else {"power_state": int(outcome.power)}
        if self.remakes_guest and outcome.well:
            columns["guest_attempt"] = None
        said = "" if outcome.well else outcome.message or COULD_NOT
        moved = state.advance(
            instance,
            ending.transition or ordinary,
            attempt=instance.attempt,
            changes={**columns, **ending.columns},
            note=Note(fault=said, cause=outcome.code, image_id=getattr(body, "image_id", "")),
        )
        if moved is None:
            return None
        if not outcome.well:
            record_fault(moved, said, details=f"{self.record}: {outcome.code}", host_name=moved.host_name)
        self.write_end(moved, instance_actions.current(moved.id, self.record), outcome)
        return moved

    def write_end(self, instance: Instance, row: InstanceAction | None, outcome: Outcome) -> None:
        """Close the action record with the step at the host."""
        if row is None:
            return
        failure = None if outcome.well else outcome.message or COULD_NOT
        span = instance_actions.Span(max(outcome.begun_at, row.started_at), outcome.ended_at)
        step = instance_actions.step(
            row,
            f"compute_{self.record}",
            span,
            attempt=instance.attempt,
            host=instance.host_name,
            failure=failure,
        )
        instance_actions.write([step])
        self.close(row, failure)
        state.announce_all(instance, [{"step": instance_actions.shown(step)}])

    def close(self, row: InstanceAction, failure: str | None) -> None:
        """Close the action record, and older ones of its kind that were left open."""
        instance_actions.finish(row.instance_id, self.record, message=failure)

    def overdue(self, instance: Instance) -> None:
        """End a task about which the host has said nothing for too long: whatever it says later is passed over."""
        command = host_commands.of_task(instance.id, instance.attempt)
        silent = silent_since(command.created_at if command is not None else instance.updated_at)
        body = decode_command_body(command.body) if command is not None else None
        if body is not None and self.awaits(body):
            self.end(instance, body, silent)  # type: ignore[arg-type]
        else:
            note = Note(fault=silent.message, cause=silent.code)
            state.advance(instance, self.badly, attempt=instance.attempt, note=note)
            instance_actions.finish(instance.id, self.record, message=silent.message)
        host_commands.withdraw_of_tasks(instance.id)


class TasklessAction(HostAction[R, B], Generic[R, B]):
    """What a host does beside a server's tasks: no state says that it goes on, only its action record and its command.

    The host carries out the commands of one server one after the other.
    """

    task = None
    one_at_a_time: ClassVar[bool] = False
    """Whether another one is refused while the host has not ended this one; no task in the records would do it."""
    ends_by_report: ClassVar[bool] = False
    """Whether only the host's report ends it: silence does not say what the guest has now."""

    def start(self, context: RequestContext, instance: Instance, request: R, started: datetime) -> Instance:
        """Check, notify, record and command, inside the caller's transaction."""
        if not self.offered(instance):
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
        if self.one_at_a_time:
            self._check_alone(instance)
        host = self.host_of(instance, started)
        prepared = self.prepare(context, instance, request)
        self.write_begin(context, instance, started, prepared.detail)
        body = self.command(instance, prepared)
        if self.notification:
            notify(instance, f"{self.notification}.start", Note(context, more=self.told_of(body)))
        self.send(host, instance, body)
        state.announce_all(instance, [{}])
        return instance

    def told_of(self, body: B) -> Mapping[str, Any]:
        """Return what its notifications say beside the server."""
        return {}

    def _check_alone(self, instance: Instance) -> None:
        """Refuse while one of the same kind goes on; of several at once one begins."""
        state.lock([instance.id])
        if host_commands.of_kind(instance, self.body).exists():
            raise ConflictError(f"Cannot '{self.record}' instance {instance.id} while another one is going on.")

    def send(self, host: Host, instance: Instance, body: CommandBody) -> None:
        """Write the command with a deadline of its own."""
        deadline = timezone.now() + timedelta(seconds=getattr(settings, self.timeout))
        host_commands.send(host.id, instance.id, instance.attempt, body, deadline, beside=True)

    def end(self, instance: Instance, body: B, outcome: Outcome) -> Instance | None:
        """Close the record, and tell what went wrong."""
        said = "" if outcome.well else outcome.message or COULD_NOT
        if not outcome.well:
            record_fault(instance, said, details=f"{self.record}: {outcome.code}", host_name=instance.host_name)
        if self.notification:
            phase = "end" if outcome.well else "error"
            note = Note(fault=said, cause=outcome.code, more=self.told_of(body))
            notify(instance, f"{self.notification}.{phase}", note)
        self.write_end(instance, self.row_of(instance, body), outcome)
        return instance

    def close(self, row: InstanceAction, failure: str | None) -> None:
        """Close this one action record: others of its kind may go on."""
        instance_actions.close(row, failure)

    def row_of(self, instance: Instance, body: B) -> InstanceAction | None:
        """Return the action record that this command belongs to."""
        return instance_actions.current(instance.id, self.record)


def check_lock(context: RequestContext, instance: Instance) -> None:
    """Refuse to act on a locked server; InstanceLockedError."""
    if instance.locked and not policy.allows(context, "os_compute_api:os-lock-server:unlock:unlock_override"):
        raise InstanceLockedError(instance.id, instance.locked_reason)
