"""The context of a running command: its steps, its cancellation, the host's threads."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from compute_agent.contract.messages import Command
from compute_agent.engine.outbox import Outbox, StepReport
from compute_agent.engine.outcomes import CANCELLED, CommandCancelledError, Failure, failure_of
from compute_agent.engine.store import StateStore, StoredCommand
from compute_agent.engine.subjects import generation_of, subject_of
from compute_agent.engine.threads import AfterStep, in_thread
from compute_agent.engine.timing import COUNTED_EVERY, REPORT_EVERY
from compute_agent.virt.errors import HostError
from compute_agent.virt.processes import progress

T = TypeVar("T")

log = logging.getLogger(__name__)

WATCHABLE = 0.05
"""Seconds after which a step that is still running is reported to the portal."""


@dataclass(frozen=True)
class Step:
    """One step of a command: its work, and the function that undoes the work.

    The engine may repeat each of them. It also undoes a step that failed halfway.
    """

    name: str
    work: Callable[[], object]
    undo: Callable[[Exception], Awaitable[None]] | None = None
    """Called with the error that ended the steps; None if nothing has to be undone."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Details to report after the step; the work may fill them."""


class Cancellation:
    """Signals a command to stop, in the event loop and in worker threads."""

    def __init__(self) -> None:
        self.failure: Failure = CANCELLED
        """The failure to report for the cancelled command."""
        self.event = threading.Event()
        self._wake = asyncio.Event()

    def set(self, failure: Failure) -> None:
        """Stop the command before its next step, and long work immediately. If called again, the first
        failure is kept.
        """
        if not self.event.is_set():
            self.failure = failure
        self.event.set()
        self._wake.set()

    async def wait(self) -> None:
        """Wait until the command is cancelled."""
        await self._wake.wait()


class CommandContext:
    """The context of one command. Used only in the event loop's thread, except the methods whose docstring names worker
    threads.
    """

    def __init__(
        self,
        stored: StoredCommand,
        store: StateStore,
        outbox: Outbox,
        pool: Executor,
        *,
        announces: bool = False,
        after_step: AfterStep | None = None,
    ) -> None:
        """``announces``: steps that run for a while are reported before they end."""
        self.command: Command = stored.command
        self.subject = subject_of(stored.command)
        self.generation = generation_of(stored.command)
        self.timing = stored.timing
        self.begun = stored.begun
        """Whether an earlier process or attempt began the command."""
        self.cancellation = Cancellation()
        self.ended = False
        self._store = store
        self._outbox = outbox
        self._pool = pool
        self._announces = announces
        self._loop = asyncio.get_running_loop()
        self._alive: int | None = None
        self._amount: progress.Amount | None = None
        self._after_step = after_step

    @property
    def cancelled(self) -> bool:
        return self.cancellation.event.is_set()

    @property
    def late(self) -> bool:
        """Whether the portal no longer waits for the command, because a time limit has passed."""
        return self.timing.late

    def stopped(self) -> bool:
        """Return whether long work must end now; called in worker threads."""
        return self.cancelled or self.late

    def moved(self) -> None:
        """Record that bytes have moved, and report it to the portal at intervals; called in worker threads."""
        if self.timing.moved(COUNTED_EVERY if self._amount else REPORT_EVERY):
            self._loop.call_soon_threadsafe(self.report_alive, "progress")

    def counted(self, amount: progress.Amount) -> None:
        """Record the progress of a copy, before ``moved``; called in worker threads."""
        self._amount = amount

    def report_alive(self, kind: Literal["begun", "progress"]) -> None:
        """Report that the command has begun or makes progress, unless its end has been reported."""
        if not self.ended:
            self._alive = self._outbox.alive(self.command, kind, self._detail(), replaces=self._alive)

    def _detail(self) -> dict[str, str]:
        amount = self._amount
        if amount is None:
            return {}
        disk = {"disk_done": amount.disk_done, "disk_total": amount.disk_total} if amount.disk_total else {}
        return {name: str(value) for name, value in ({"done": amount.done, "total": amount.total} | disk).items()}

    @property
    def leftover(self) -> bool:
        """Whether an earlier command of the subject left resources that could not be removed."""
        record = self._store.subject(self.subject)
        return record is not None and record.leftover

    def describe(self, description: bytes) -> None:
        """Store the subject's spec. Call this before any part of the subject is created."""
        self._store.describe(self.subject, description)

    def explain(self, error: Exception, generic: str) -> Failure:
        """Return the failure to report for ``error``, and log it for operators."""
        if self.cancelled or isinstance(error, CommandCancelledError):
            return self.cancellation.failure
        what = f"{type(self.command.body).__name__} of {self.subject}"
        if isinstance(error, HostError):
            log.warning("Failed: %s: %s %s", what, error.message, error.detail)
        else:
            log.error("Failed: %s.", what, exc_info=error)
        return failure_of(error, generic)

    async def work(self, action: Callable[[], T]) -> T:
        """Run blocking work in a worker thread."""
        return await in_thread(self._pool, action)

    async def run_steps(self, steps: Sequence[Step], *, always_undo: bool = False) -> None:
        """Run the steps in order and report each. After a failure, undo the steps that were begun, last first.

        If the command is cancelled, CommandCancelledError is raised instead of a step's error. The steps of a cancelled
        command are undone only with ``always_undo``, because its subject is about to be removed. With ``always_undo``,
        a command that was cancelled during its last step also counts as cancelled.
        """
        begun: list[Step] = []
        try:
            for step in steps:
                self._check_cancelled()
                begun.append(step)
                await self._run_step(step)
            if always_undo:
                self._check_cancelled()
        except Exception as error:
            stopped = self.cancelled
            for step in reversed(begun):
                if step.undo is not None and (always_undo or not stopped):
                    await step.undo(error)
            if stopped and not isinstance(error, CommandCancelledError):
                raise CommandCancelledError from error
            raise

    def _check_cancelled(self) -> None:
        if self.cancelled:
            raise CommandCancelledError

    async def _run_step(self, step: Step) -> None:
        started_at = time.time()
        announced: list[int] = []
        announcement = asyncio.get_running_loop().call_later(
            WATCHABLE, lambda: announced.append(self._outbox.step_started(self.command, step.name, started_at))
        )
        if not self._announces:
            announcement.cancel()
        try:
            await self.work(lambda: self._carry_out(step))
        finally:
            announcement.cancel()
        report = StepReport(step.name, started_at, time.time(), step.facts)
        self._outbox.step(self.command, report, replaces=announced[0] if announced else None)
        self.timing.moved()

    def _carry_out(self, step: Step) -> None:
        with progress.heard_by(self.moved, self.counted):
            step.work()
        if self._after_step is not None:
            self._after_step(step.name, self.cancellation.event)
