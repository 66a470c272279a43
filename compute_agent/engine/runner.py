"""Executes the commands of a host: one at a time for each subject, in order of arrival, removals first."""

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from compute_agent.contract.messages import Command
from compute_agent.engine.context import Cancellation, CommandContext
from compute_agent.engine.handlers import CommandHandler, SubjectKind
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.outcomes import CANCELLED, LATE, SUPERSEDED, UNKNOWN, Failure, Outcome
from compute_agent.engine.store import StateStore, StoredCommand, SubjectRecord
from compute_agent.engine.subjects import Subject, generation_of, subject_of
from compute_agent.engine.threads import AfterStep, Threads
from compute_agent.engine.timing import Timing

log = logging.getLogger(__name__)

AGAIN = 5.0
"""Seconds before retrying a command whose end could not be recorded, for example because the disk was full."""
BEGUN_AFTER = 1.0
"""Seconds after which a running command is reported as begun. Most commands end earlier."""
COMMAND_FAILED = "The host could not complete the action."


class Workers:
    """A number of workers, assigned in order of arrival. No owner can use all of them.

    For the event loop's thread only.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._share = max(number - 1, 1)
        """Limit of workers for one owner. If there are several workers, one is always left for other owners."""
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    async def acquire(self, owner: str, cancellation: Cancellation) -> bool:
        """Wait for a worker. Return False if the command is cancelled first.

        ``owner``: the command's owner, who may have only a share of the workers; empty: no owner and no such limit.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((owner, turn))
        self._serve()
        stop = asyncio.ensure_future(cancellation.wait())
        try:
            await asyncio.wait((turn, stop), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._leave(owner, turn)
            raise
        finally:
            stop.cancel()
        if cancellation.event.is_set():
            self._leave(owner, turn)
            return False
        return True

    def release(self, owner: str) -> None:
        """Release the worker to the next command."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._serve()

    def _leave(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Stop waiting for a worker. If one was assigned in the meantime, release it."""
        if turn.done():
            self.release(owner)
        else:
            self._waiting.remove((owner, turn))

    def _serve(self) -> None:
        for owner, turn in list(self._waiting):
            if not self._free:
                return
            if owner and self._held[owner] >= self._share:
                continue
            self._waiting.remove((owner, turn))
            self._free -= 1
            self._held[owner] += 1
            turn.set_result(None)


@dataclass(frozen=True)
class Sweep:
    """Another attempt to remove the remains that a failed command has left of a subject."""

    record: SubjectRecord


@dataclass(frozen=True)
class Running:
    """A running command: its handler, its context, and the workers that it waits for if it is heavy."""

    handler: CommandHandler[Any]
    context: CommandContext
    workers: Workers


@dataclass
class Lane:
    """The running command of one subject, and its waiting commands."""

    queue: deque[StoredCommand | Sweep] = field(default_factory=deque)
    running: Running | None = None
    task: asyncio.Task[None] | None = None


class CommandRunner:
    """Stores commands, keeps their order, and passes each to the handler for the kind of its subject and the type of
    its body.
    """

    def __init__(
        self,
        store: StateStore,
        outbox: Outbox,
        threads: Threads,
        *,
        on_end: Callable[[str], None],
        after_step: AfterStep | None = None,
    ) -> None:
        """``on_end`` is called after every command, with the kind of its subject."""
        self._store = store
        self._outbox = outbox
        self._threads = threads
        self._on_end = on_end
        self._after_step = after_step
        self._kinds: dict[str, SubjectKind] = {}
        self._lanes: dict[Subject, Lane] = {}
        self._workers: defaultdict[str, Workers] = defaultdict(lambda: Workers(threads.workers))
        """The workers of each remote resource that commands wait for."""
        self._stopping = False
        self._open = False

    def register(self, kind: SubjectKind) -> None:
        """Register a kind of subjects, whose commands are then executed."""
        self._kinds[kind.kind] = kind

    # ----- interface ------------------------------------------------------------------------------------------------

    def busy(self, subject: Subject) -> bool:
        """Return whether the subject has a command or sweep."""
        return subject in self._lanes

    def at_work(self) -> set[Subject]:
        """Return the subjects that have a command or sweep, running or waiting."""
        return {*self._lanes, *(subject_of(stored.command) for stored in self._store.unfinished())}

    @property
    def open(self) -> bool:
        """Whether commands are executed."""
        return self._open

    def accept(self, command: Command) -> None:
        """Store the command and execute it after earlier commands of its subject. Duplicates are ignored.

        When this returns, the command may be acknowledged. Before ``resume`` is called, commands are only stored.
        """
        if self._store.accept(command) and self._open:
            self._enqueue(StoredCommand(command, begun=False, timing=Timing(command)))

    def resume(self, owned: Mapping[Subject, int], awaited: Collection[str] | None = None) -> None:
        """Resume the unfinished commands of an earlier process, and start executing new commands.

        ``owned``: the newest generation of each subject that this host owns according to the database. Commands for
        other subjects, or with an older generation, are superseded. ``awaited``: see ``withdraw``.
        """
        if stale := self._store.fence(owned, self._removes):
            log.warning("%s commands of an earlier process are outdated according to the portal's records.", stale)
        self._open = True
        for stored in self._store.unfinished():
            self._enqueue(stored)
        self.withdraw(awaited)

    def withdraw(self, awaited: Collection[str] | None) -> None:
        """Mark all commands that have not begun in this process as late, except the commands whose end the portal waits
        for. ``awaited``: the ids of these commands; None if unknown: then no command is marked.
        """
        if awaited is None:
            return
        for lane in self._lanes.values():
            waiting = [(item.command, item.timing) for item in lane.queue if isinstance(item, StoredCommand)]
            if lane.running is not None and lane.running.context.timing.waits:  # for a worker
                waiting.append((lane.running.context.command, lane.running.context.timing))
            for command, timing in waiting:
                timing.withdrawn = timing.withdrawn or command.id not in awaited

    def sweep(self) -> None:
        """Retry to remove the remains of failed commands of all subjects without a running command."""
        if not self._open:
            return
        for record in self._store.leftovers():
            if record.subject not in self._lanes:
                self._lane(record.subject).queue.append(Sweep(record))

    async def idle(self) -> None:
        """Wait until no command is running."""
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            await asyncio.wait(tasks)

    async def stop(self, grace: float) -> None:
        """Start no more commands and wait at most ``grace`` seconds for running steps.

        Unfinished commands are resumed at the next start.
        """
        self._stopping = True
        lanes = list(self._lanes.values())
        tasks = [lane.task for lane in lanes if lane.task is not None]
        for task in tasks:
            task.cancel()
        for lane in lanes:
            if lane.running is not None:  # ends long work; the task is cancelled and reports nothing
                lane.running.context.cancellation.set(CANCELLED)
        if tasks:
            await asyncio.wait(tasks, timeout=grace)

    # ----- lanes ----------------------------------------------------------------------------------------------------

    def _lane(self, subject: Subject) -> Lane:
        lane = self._lanes.get(subject)
        if lane is None:
            lane = self._lanes[subject] = Lane()
            lane.task = asyncio.get_running_loop().create_task(self._run_lane(subject, lane), name=f"lane {subject}")
        return lane

    def _enqueue(self, stored: StoredCommand) -> None:
        command = stored.command
        lane = self._lane(subject_of(command))
        removes = self._removes(command)
        if removes:
            lane.queue.appendleft(stored)  # earlier commands are then obsolete
        else:
            lane.queue.append(stored)
        if lane.running is not None and self._ends(command, lane.running):
            lane.running.context.cancellation.set(CANCELLED if removes else SUPERSEDED)

    def _ends(self, command: Command, running: Running) -> bool:
        """Return whether the running command has to end because of the new ``command``."""
        if self._removes(command):
            return generation_of(command) >= running.context.generation
        return running.handler.makes and generation_of(command) > running.context.generation

    def _handler(self, command: Command) -> CommandHandler[Any] | None:
        kind = self._kinds.get(subject_of(command).kind)
        return kind.handlers.get(type(command.body)) if kind is not None else None

    def _removes(self, command: Command) -> bool:
        handler = self._handler(command)
        return handler is not None and handler.removes

    async def _run_lane(self, subject: Subject, lane: Lane) -> None:
        try:
            while lane.queue and not self._stopping:
                await self._run_first(subject, lane)
        finally:
            del self._lanes[subject]
        if subject.kind in self._kinds:
            self._kinds[subject.kind].settled(subject.id)

    async def _run_first(self, subject: Subject, lane: Lane) -> None:
        item = lane.queue.popleft()
        try:
            if isinstance(item, Sweep):
                await self._sweep(item.record)
            else:
                await self._carry_out(item, lane)
                self._on_end(subject.kind)
        except Exception:
            log.exception("A command for %s was aborted and is retried in %s s.", subject, AGAIN)
            if isinstance(item, StoredCommand):
                lane.queue.appendleft(replace(item, begun=True))
            await asyncio.sleep(AGAIN)

    async def _sweep(self, record: SubjectRecord) -> None:
        kind = self._kinds.get(record.subject.kind)
        if kind is not None and await kind.sweep(record):
            self._store.delete_spec(record.subject)
            log.info("Removed what was left of %s.", record.subject)

    # ----- one command ----------------------------------------------------------------------------------------------

    async def _carry_out(self, stored: StoredCommand, lane: Lane) -> None:
        command, handler = stored.command, self._handler(stored.command)
        if handler is None:
            self._outbox.end(command, Outcome(UNKNOWN))
            return
        place = self._kinds[subject_of(command).kind].place(command.body)
        local = self._threads.work if handler.heavy else self._threads.power
        pool = self._threads.of(place) if place else local
        context = CommandContext(
            stored, self._store, self._outbox, pool, announces=handler.makes, after_step=self._after_step
        )
        failure = self._refusal(stored, handler)
        if failure is not None:
            outcome = self._with_newest(command, await handler.refuse(context, command.body, failure))
        else:
            lane.running = Running(handler, context, self._workers[place])
            try:
                outcome = await self._run(lane.running)
            finally:
                lane.running = None
        context.ended = True
        self._outbox.end(command, outcome)

    def _refusal(self, stored: StoredCommand, handler: CommandHandler[Any]) -> Failure | None:
        """Return the reason why the command must not be executed; None if it may be executed."""
        command, generation = stored.command, generation_of(stored.command)
        record = self._store.subject(subject_of(command))
        if record is not None and generation < record.generation:
            return SUPERSEDED
        if handler.removes:
            return None
        if record is not None and generation <= record.removed:
            return SUPERSEDED
        return LATE if stored.timing.late and not (stored.begun and handler.resumes_late) else None

    def _with_newest(self, command: Command, outcome: Outcome) -> Outcome:
        """Add the newest generation that this host has seen to the outcome of a superseded command."""
        record = self._store.subject(subject_of(command))
        if record is None or outcome.failure is None or outcome.failure.code != SUPERSEDED.code:
            return outcome
        newest = str(max(record.generation, record.removed))
        return replace(outcome, detail={**outcome.detail, "generation": newest})

    async def _run(self, running: Running) -> Outcome:
        """Wait for a worker, then record and report the beginning of the command, and run its handler. If the command
        is cancelled first, the handler refuses it.
        """
        handler, context = running.handler, running.context
        owner = handler.owner(context, context.command.body) if handler.heavy else ""
        if handler.heavy and not await running.workers.acquire(owner, context.cancellation):
            return await handler.refuse(context, context.command.body, context.cancellation.failure)
        begun = asyncio.get_running_loop().call_later(BEGUN_AFTER, context.report_alive, "begun")
        try:
            if context.late and not (handler.removes or (context.begun and handler.resumes_late)):
                return await handler.refuse(context, context.command.body, LATE)
            if not context.late:
                context.timing.begin()
            self._store.begin(context.command, removes=handler.removes)
            try:
                return await handler.run(context, context.command.body)
            except Exception as error:  # noqa: BLE001 (every failure has the same end: report)
                return Outcome(context.explain(error, COMMAND_FAILED))
        finally:
            begun.cancel()
            if handler.heavy:
                running.workers.release(owner)
