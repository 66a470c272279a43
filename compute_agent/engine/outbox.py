"""Events on their way to the portal: numbered, kept until recorded, and sent together when several are ready."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from compute_agent.contract.messages import AgentEvent, Command
from compute_agent.engine.failures import Failure
from compute_agent.engine.store import StateStore

FRAME_EVENTS = 200
"""At most so many events travel in one frame."""

STEP_LINGER = 0.01
"""Seconds a finished step waits for company.  The end of a command and a power change wait for nothing and take all
with them.
"""


@dataclass(frozen=True)
class StepReport:
    """One step of a command with its times (Unix seconds) and details fit for users."""

    step: str
    started_at: float
    finished_at: float
    detail: Mapping[str, str]


class Outbox:
    """Events not yet recorded by the portal; for the event loop's thread only."""

    def __init__(self, store: StateStore) -> None:
        """Take up what an earlier process could not deliver."""
        self._store = store
        self._pending: dict[int, AgentEvent] = {event.seq: event for event in store.events()}
        self._sent = 0
        self._ready = asyncio.Event()
        self._urgent = asyncio.Event()
        if self._pending:
            self._ready.set()

    # ----- the manager's side ---------------------------------------------------------------------------------------

    def step_started(self, command: Command, step: str, started_at: float) -> int:
        """Say that a step goes on; kept in memory only, because its end says everything.  Returns its number."""
        event = AgentEvent(
            seq=self._store.next_seq(),
            instance_id=command.instance_id,
            attempt=command.attempt,
            kind="step_started",
            command_id=command.id,
            step=step,
            started_at=started_at,
        )
        self._add(event, urgent=True)
        return event.seq

    def step(self, command: Command, report: StepReport, *, replaces: int | None = None) -> None:
        """Say that a step ended; takes the place of its ``step_started`` when that has not left yet."""
        if replaces is not None and replaces > self._sent:
            self._pending.pop(replaces, None)
        event = AgentEvent(
            seq=self._store.next_seq(),
            instance_id=command.instance_id,
            attempt=command.attempt,
            kind="step",
            command_id=command.id,
            step=report.step,
            started_at=report.started_at,
            finished_at=report.finished_at,
            detail=dict(report.detail),
        )
        self._store.add_event(event)
        self._add(event, urgent=False)

    def finished(self, command: Command, power_state: int, *, gone: bool = False) -> None:
        """Say that the command ended well; it is not run again."""
        self._end(command, "finished", power_state=power_state, gone=gone)

    def failed(self, command: Command, failure: Failure, *, gone: bool = False, leftover: bool = False) -> None:
        """Say that the command ended badly; it is not run again."""
        self._end(command, "failed", failure=failure, gone=gone, leftover=leftover)

    def power(self, instance_id: str, attempt: int, power_state: int) -> None:
        """Say that a guest's power state changed without a command."""
        event = AgentEvent(
            seq=self._store.next_seq(),
            instance_id=instance_id,
            attempt=attempt,
            kind="power",
            finished_at=time.time(),
            power_state=power_state,
        )
        self._store.add_event(event)
        self._add(event, urgent=True)

    def _end(
        self,
        command: Command,
        kind: Literal["finished", "failed"],
        *,
        power_state: int | None = None,
        failure: Failure | None = None,
        gone: bool = False,
        leftover: bool = False,
    ) -> None:
        event = AgentEvent(
            seq=self._store.next_seq(),
            instance_id=command.instance_id,
            attempt=command.attempt,
            kind=kind,
            command_id=command.id,
            finished_at=time.time(),
            power_state=power_state,
            error_code=failure.code if failure else "",
            message=failure.message if failure else "",
            retryable=failure.retryable if failure else False,
        )
        self._store.finish(command, event, gone=gone, leftover=leftover)
        self._add(event, urgent=True)

    def _add(self, event: AgentEvent, *, urgent: bool) -> None:
        self._pending[event.seq] = event
        self._ready.set()
        if urgent:
            self._urgent.set()

    # ----- the link's side ------------------------------------------------------------------------------------------

    def rewind(self) -> None:
        """Begin a new connection: everything not recorded is sent again."""
        self._sent = 0
        if self._pending:
            self._ready.set()
            self._urgent.set()

    async def next_frame(self) -> list[AgentEvent]:
        """Wait until there is something to send and return all of it, at most ``FRAME_EVENTS``."""
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
        """Drop what the portal has recorded."""
        recorded = list(itertools.takewhile(lambda number: number <= seq, self._pending))
        if recorded:
            for number in recorded:
                del self._pending[number]
            self._store.forget_events(seq)

    @property
    def unrecorded(self) -> int:
        """How many events the portal has not recorded yet."""
        return len(self._pending)
