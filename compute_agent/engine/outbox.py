"""Events for the portal: numbered, kept until the portal has recorded them, and sent together if several are ready."""

import asyncio
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from compute_agent.contract.messages import AgentEvent, Command
from compute_agent.engine.outcomes import Outcome
from compute_agent.engine.store import StateStore
from compute_agent.engine.subjects import Subject, generation_of, subject_of

EventKind = Literal["begun", "progress", "step_started", "step", "finished", "failed", "posted", "lease", "power"]

FRAME_EVENTS = 200
"""Limit of the events in one frame."""

STEP_LINGER = 0.01
"""Seconds that a finished step waits for other events.  The end of a command and a power change are sent immediately,
with all events that wait.
"""


@dataclass(frozen=True)
class StepReport:
    """One step of a command with its times (Unix seconds) and details for users."""

    step: str
    started_at: float
    finished_at: float
    detail: Mapping[str, str]


class Outbox:
    """Events not yet recorded by the portal; for the event loop's thread only."""

    def __init__(self, store: StateStore) -> None:
        """Load the events that an earlier process could not deliver."""
        self._store = store
        self._pending: dict[int, AgentEvent] = {event.seq: event for event in store.events()}
        self._sent = 0
        self._ready = asyncio.Event()
        self._urgent = asyncio.Event()
        if self._pending:
            self._ready.set()

    # ----- the engine's side ----------------------------------------------------------------------------------------

    def alive(
        self,
        command: Command,
        kind: Literal["begun", "progress"],
        detail: Mapping[str, str] | None = None,
        *,
        replaces: int | None = None,
    ) -> int:
        """Report that a command has begun or makes progress. The report is not stored on disk, and replaces the
        command's previous one if that was not sent yet.

        Returns the number of the event.
        """
        self._withdraw(replaces)
        event = self._of(command, kind, detail=dict(detail or {}))
        self._add(event, urgent=False)
        return event.seq

    def step_started(self, command: Command, step: str, started_at: float) -> int:
        """Report that a step is running. The report is not stored on disk, because the report of the end of the step
        repeats all data. Returns the event's number.
        """
        event = self._of(command, "step_started", step=step, started_at=started_at)
        self._add(event, urgent=True)
        return event.seq

    def step(self, command: Command, report: StepReport, *, replaces: int | None = None) -> None:
        """Report that a step has ended. ``replaces``: the number of the step's event ``step_started``, which is dropped
        if it was not sent yet.
        """
        self._withdraw(replaces)
        event = self._of(
            command,
            "step",
            step=report.step,
            started_at=report.started_at,
            finished_at=report.finished_at,
            detail=dict(report.detail),
        )
        self._store.add_event(event)
        self._add(event, urgent=False)

    def end(self, command: Command, outcome: Outcome) -> None:
        """Store and report the end of the command, which is not run again."""
        failure = outcome.failure
        event = self._of(
            command,
            "finished" if failure is None else "failed",
            finished_at=time.time(),
            power_state=outcome.power_state,
            detail=dict(outcome.detail),
            error_code=failure.code if failure else "",
            message=failure.message if failure else "",
            retryable=failure.retryable if failure else False,
        )
        self._store.finish(command, event, outcome)
        self._add(event, urgent=True)

    def power(self, subject: Subject, generation: int, power_state: int) -> None:
        """Report a change of the power state that was not caused by a command."""
        event = self._event(subject, generation, "power", finished_at=time.time(), power_state=power_state)
        self._store.add_event(event)
        self._add(event, urgent=True)

    def posted(self, subject: Subject, generation: int, detail: Mapping[str, str]) -> None:
        """Report the password that a guest has posted to its metadata service."""
        event = self._event(subject, generation, "posted", finished_at=time.time(), detail=dict(detail))
        self._store.add_event(event)
        self._add(event, urgent=True)

    def lease(self, subject: Subject, generation: int, detail: Mapping[str, str]) -> None:
        """Report that a guest has received an address by DHCP, or released it."""
        event = self._event(subject, generation, "lease", finished_at=time.time(), detail=dict(detail))
        self._store.add_event(event)
        self._add(event, urgent=False)

    def _withdraw(self, seq: int | None) -> None:
        """Drop an event that was not sent yet."""
        if seq is not None and seq > self._sent:
            self._pending.pop(seq, None)

    def _of(self, command: Command, kind: EventKind, **facts: Any) -> AgentEvent:
        return self._event(subject_of(command), generation_of(command), kind, command_id=command.id, **facts)

    def _event(self, subject: Subject, generation: int, kind: EventKind, **facts: Any) -> AgentEvent:
        return AgentEvent(
            seq=self._store.next_seq(),
            subject_kind=subject.kind,
            subject_id=subject.id,
            generation=generation,
            kind=kind,
            **facts,
        )

    def _add(self, event: AgentEvent, *, urgent: bool) -> None:
        self._pending[event.seq] = event
        self._ready.set()
        if urgent:
            self._urgent.set()

    # ----- the link's side ------------------------------------------------------------------------------------------

    def rewind(self) -> None:
        """Prepare a new connection: all events that the portal has not recorded are sent again."""
        self._sent = 0
        if self._pending:
            self._ready.set()
            self._urgent.set()

    async def next_frame(self) -> list[AgentEvent]:
        """Wait for events and return all of them, at most ``FRAME_EVENTS``."""
        while True:
            await self._ready.wait()
            if not self._urgent.is_set():
                try:
                    async with asyncio.timeout(STEP_LINGER):
                        await self._urgent.wait()
                except TimeoutError:
                    pass
            frame = [event for seq, event in self._pending.items() if seq > self._sent][:FRAME_EVENTS]
            if len(frame) < FRAME_EVENTS:
                self._ready.clear()
                self._urgent.clear()
            if frame:
                self._sent = frame[-1].seq
                return frame

    def acknowledged(self, seq: int) -> None:
        """Delete the events that the portal has recorded."""
        recorded = list(itertools.takewhile(lambda number: number <= seq, self._pending))
        if recorded:
            for number in recorded:
                del self._pending[number]
            self._store.forget_events(seq)
