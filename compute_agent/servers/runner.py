"""Commands of a host: one at a time per instance in order of arrival, a destroy before all others."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from compute_agent.contract.commands import BuildRequest, DestroyRequest
from compute_agent.contract.messages import Command
from compute_agent.engine.failures import LATE, SUPERSEDED
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.store import InstanceRecord, StateStore, StoredCommand
from compute_agent.servers.build import Build
from compute_agent.servers.handlers import handler_for
from compute_agent.servers.lifecycle import Lifecycle
from compute_agent.servers.power_tracker import PowerTracker
from compute_agent.servers.services import HostServices

log = logging.getLogger(__name__)

AGAIN = 5.0
"""Seconds until an order is tried again whose end could not be recorded (a full disk, for example)."""


@dataclass(frozen=True)
class Sweep:
    """Try again to remove what a failed command has left of an instance."""

    record: InstanceRecord


@dataclass
class Lane:
    """The orders of one instance that wait, and the build that is under way."""

    queue: deque[StoredCommand | Sweep] = field(default_factory=deque)
    build: Build | None = None
    cancelled: threading.Event | None = None
    """Set to stop the order that is carried out, when that is no build."""
    task: asyncio.Task[None] | None = None


class CommandRunner:
    """Takes commands, keeps their order, and lets ``Lifecycle`` carry them out."""

    def __init__(self, store: StateStore, outbox: Outbox, parts: HostServices, on_end: Callable[[], None]) -> None:
        """``on_end`` is called after every command."""
        self._store = store
        self._outbox = outbox
        self._on_end = on_end
        self._lanes: dict[str, Lane] = {}
        self._stopping = False
        self._open = False
        self.book = PowerTracker(outbox, self.busy)
        self._lifecycle = Lifecycle(store, outbox, parts, self.book)
        self._parts = parts

    def busy(self, uuid: str) -> bool:
        """Say whether something is being done to the instance."""
        return uuid in self._lanes

    def accept(self, command: Command) -> None:
        """Store the command and carry it out in its turn; one that was delivered before is left alone.

        When this returns the command may be acknowledged.  Before ``resume`` it is only stored.
        """
        if self._store.accept(command) and self._open:
            self._enqueue(StoredCommand(command, begun=False))

    def at_work(self) -> set[str]:
        """Return the instances with which something is being done, or will be."""
        return {*self._lanes, *(stored.command.instance_id for stored in self._store.unfinished())}

    @property
    def open(self) -> bool:
        """Say whether commands are carried out."""
        return self._open

    def resume(self, owned: Mapping[str, int] | None) -> None:
        """Take up what an earlier process has not ended, and be open for more.

        ``owned``: the newest attempt of each instance that is this host's by the records; what was ordered for others,
        or in an older attempt, is superseded.  None: the portal does not say; all is taken up.
        """
        if owned is not None and (stale := self._store.fence(owned)):
            log.warning("%s orders of an earlier process are outdated by the records.", stale)
        self._open = True
        for stored in self._store.unfinished():
            self._enqueue(stored)

    def sweep(self) -> None:
        """Try again to remove what failed commands have left, of instances with which nothing is being done."""
        if not self._open:
            return
        for record in self._store.leftovers():
            if record.uuid not in self._lanes:
                self._lane(record.uuid).queue.append(Sweep(record))

    async def idle(self) -> None:
        """Wait until no order is being carried out."""
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            await asyncio.wait(tasks)

    async def stop(self, grace: float) -> None:
        """Begin nothing more and wait at most ``grace`` seconds for the steps that run.

        What is not done goes on at the next start.
        """
        self._stopping = True
        lanes = list(self._lanes.values())
        tasks = [lane.task for lane in lanes if lane.task is not None]
        for task in tasks:
            task.cancel()
        for lane in lanes:
            if lane.build is not None:
                lane.build.cancelled.set()  # lets a simulated hang end; the task is cancelled and reports nothing
        if tasks:
            await asyncio.wait(tasks, timeout=grace)

    # ----- order ----------------------------------------------------------------------------------------------------

    def _lane(self, uuid: str) -> Lane:
        lane = self._lanes.get(uuid)
        if lane is None:
            lane = self._lanes[uuid] = Lane()
            lane.task = asyncio.get_running_loop().create_task(self._run_lane(uuid, lane), name=f"lane {uuid}")
        return lane

    def _enqueue(self, stored: StoredCommand) -> None:
        command = stored.command
        lane = self._lane(command.instance_id)
        if isinstance(command.body, DestroyRequest):
            lane.queue.appendleft(stored)  # what it overtakes is outdated when its turn comes
        else:
            lane.queue.append(stored)
        if lane.build is not None and self._ends(command, lane.build.command):
            lane.build.cancel()
        if lane.cancelled is not None and isinstance(command.body, DestroyRequest):
            lane.cancelled.set()

    @staticmethod
    def _ends(command: Command, running: Command) -> bool:
        """Say whether ``command`` makes the build ``running`` pointless."""
        if isinstance(command.body, DestroyRequest):
            return command.attempt >= running.attempt
        return command.attempt > running.attempt

    async def _run_lane(self, uuid: str, lane: Lane) -> None:
        try:
            while lane.queue and not self._stopping:
                await self._take_first(uuid, lane)
        finally:
            del self._lanes[uuid]
        self.book.settle(uuid)

    async def _take_first(self, uuid: str, lane: Lane) -> None:
        item = lane.queue.popleft()
        try:
            if isinstance(item, Sweep):
                await self._lifecycle.sweep(item.record)
            else:
                await self._carry_out(item, lane)
                self._on_end()
        except Exception:
            log.exception("An order for instance %s broke off and is tried again in %s s.", uuid, AGAIN)
            if isinstance(item, StoredCommand):
                lane.queue.appendleft(StoredCommand(item.command, begun=True))
            await asyncio.sleep(AGAIN)

    async def _carry_out(self, stored: StoredCommand, lane: Lane) -> None:
        command, body = stored.command, stored.command.body
        record = self._store.instance(command.instance_id)
        if isinstance(body, DestroyRequest):
            if record is not None and command.attempt < record.attempt:
                self._outbox.failed(command, SUPERSEDED)
            else:
                await self._lifecycle.destroy(command)
            return
        outdated = record is not None and (command.attempt < record.attempt or command.attempt <= record.destroyed)
        work = handler_for(body)
        late = 0 < command.deadline < time.time() and not (stored.begun and work is not None and work.undoes)
        if outdated or late:
            await self._lifecycle.refuse(stored, SUPERSEDED if outdated else LATE)
        elif isinstance(body, BuildRequest):
            lane.build = Build(command, body, self._parts, self._outbox)
            try:
                await self._lifecycle.build(stored, lane.build)
            finally:
                lane.build = None
        elif work is not None:
            lane.cancelled = threading.Event()
            try:
                await self._lifecycle.carry_out(command, work, lane.cancelled)
            finally:
                lane.cancelled = None
