"""Carrying out one command from its beginning to its one end: ``finished``, or ``failed`` with everything undone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from compute_agent.contract.commands import BuildRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import CREATE_DISK, PLUG_NETWORK, START_GUEST
from compute_agent.engine.failures import CANCELLED, SUPERSEDED, Failure, SupersededError, failure_of
from compute_agent.engine.outbox import Outbox, StepReport
from compute_agent.engine.store import InstanceRecord, StateStore, StoredCommand
from compute_agent.engine.threads import in_thread
from compute_agent.servers.build import Build, BuildCancelledError
from compute_agent.servers.context import CommandCancelledError, CommandContext, Tell
from compute_agent.servers.power_tracker import PowerTracker
from compute_agent.servers.registry import CommandHandler
from compute_agent.servers.removal import Undone, find_guest, insist, undo, unplug
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import Guest
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)

BUILD_FAILED = "The host could not build the instance."
ORDER_FAILED = "The host could not do it."
DESTROY_FAILED = Failure("destroy_failed", "The host could not remove the instance yet.", retryable=True)


class Lifecycle:
    """Builds, destroys and switches guests; the caller sees to it that an instance has one command at a time."""

    def __init__(self, store: StateStore, outbox: Outbox, parts: HostServices, book: PowerTracker) -> None:
        """Use the means of one host."""
        self._store = store
        self._outbox = outbox
        self._parts = parts
        self._book = book
        self._slots = asyncio.Semaphore(parts.threads.workers)

    # ----- build ----------------------------------------------------------------------------------------------------

    async def build(self, stored: StoredCommand, build: Build) -> None:
        """Make the guest; when an earlier process began it, first look how far it came.

        1. wait for a free worker, or for a destroy; 2. look for an earlier guest when there may be one; 3. note the
        beginning; 4. take the steps; 5. report, or undo and report.
        """
        command = stored.command
        earlier = stored.begun or command.instance_id in self._book or self._has_leftover(command)
        try:
            async with self._slot(build):
                power = await self._settle_earlier(command) if earlier else None
                self._store.begin(command)
                if power is None:
                    power = await build.run()
        except Exception as error:  # noqa: BLE001 (every failure has the same end: undo and report)
            await self._fail_build(build, error, earlier=earlier)
        else:
            self._outbox.finished(command, power)
            self._book.reported(Guest(command.instance_id, command.attempt, power))

    @asynccontextmanager
    async def _slot(self, build: Build) -> AsyncIterator[None]:
        """Hold one of the host's workers; raises BuildCancelledError when the build is cancelled while it waits."""
        acquired = asyncio.ensure_future(self._slots.acquire())
        cancelled = asyncio.ensure_future(build.when_cancelled())
        try:
            await asyncio.wait((acquired, cancelled), return_when=asyncio.FIRST_COMPLETED)
            if not acquired.done():
                raise BuildCancelledError
            yield
        finally:
            cancelled.cancel()
            if acquired.done() and not acquired.cancelled():
                self._slots.release()
            else:
                acquired.cancel()

    def _has_leftover(self, command: Command) -> bool:
        record = self._store.instance(command.instance_id)
        return record is not None and record.leftover

    async def _settle_earlier(self, command: Command) -> PowerState | None:
        """Return the power state when this very attempt runs already; remove an earlier or half-made guest."""
        guest = await find_guest(self._parts, command.instance_id)
        if guest is None:
            return None
        if guest.attempt > command.attempt:
            raise SupersededError
        if _runs(guest, command.attempt):
            return PowerState.RUNNING
        await in_thread(self._parts.threads.work, lambda: self._parts.driver.destroy(command.instance_id))
        self._book.forget(command.instance_id)
        return None

    async def _fail_build(self, build: Build, error: Exception, *, earlier: bool) -> None:
        """Undo as far as the build came, and report.  ``earlier``: something may have been here before it."""
        command, failure = build.command, self._explain(build, error)
        if earlier or build.reached(CREATE_DISK):
            may_run = earlier or build.reached(START_GUEST)
            undone = await undo(self._parts, command.instance_id, command.attempt, may_run=may_run)
        elif build.reached(PLUG_NETWORK):
            undone = Undone(network_left=not await unplug(self._parts, command.instance_id))
        else:
            self._outbox.failed(command, failure)
            return
        if undone.guest_left:  # it may come up yet: no second one elsewhere
            failure = replace(failure, retryable=False)
        if undone.gone:
            self._book.forget(command.instance_id)
        self._outbox.failed(command, failure, gone=undone.gone, leftover=not undone.complete)

    def _explain(self, build: Build, error: Exception) -> Failure:
        if build.cancelled.is_set() or isinstance(error, BuildCancelledError):
            record = self._store.instance(build.command.instance_id)
            newer = record is not None and record.attempt > build.command.attempt
            return SUPERSEDED if newer else CANCELLED
        self._log(f"build of instance {build.spec.uuid}", error)
        return failure_of(error, BUILD_FAILED)

    @staticmethod
    def _log(what: str, error: Exception) -> None:
        if isinstance(error, HostError):
            log.warning("Failed: %s: %s %s", what, error.message, error.detail)
        else:
            log.error("Failed: %s.", what, exc_info=error)

    async def refuse(self, stored: StoredCommand, failure: Failure) -> None:
        """Answer an order that comes too late.

        What an earlier process has made of a build is kept when it runs and was only late; else it is undone, also when
        the note that it began is lost, with the power or with the agent's memory.
        """
        command = stored.command
        if not (isinstance(command.body, BuildRequest) and (stored.begun or failure is not SUPERSEDED)):
            self._outbox.failed(command, failure)
            return
        guest: Guest | None = None

        async def look() -> None:
            nonlocal guest
            guest = await find_guest(self._parts, command.instance_id)

        await insist(look, f"look for instance {command.instance_id}", patient=True)
        if failure is not SUPERSEDED and _runs(guest, command.attempt):
            self._store.begin(command)
            self._outbox.finished(command, PowerState.RUNNING)
            return
        undone = await undo(self._parts, command.instance_id, command.attempt, may_run=True)
        if undone.guest_left:  # it may come up yet: no second one elsewhere
            failure = replace(failure, retryable=False)
        if undone.gone:
            self._book.forget(command.instance_id)
        self._outbox.failed(command, failure, gone=undone.gone, leftover=not undone.complete)

    # ----- destroy --------------------------------------------------------------------------------------------------

    async def destroy(self, command: Command) -> None:
        """Remove the guest and all that belongs to it; waits without end for a hypervisor that does not answer."""
        uuid = command.instance_id
        self._store.mark_destroyed(uuid, command.attempt)
        undone = await undo(self._parts, uuid, command.attempt, may_run=True)
        if undone.newer_kept:
            self._outbox.failed(command, SUPERSEDED)
        elif undone.complete:
            self._book.forget(uuid)
            self._outbox.finished(command, PowerState.NOSTATE, gone=True)
        else:
            self._outbox.failed(command, DESTROY_FAILED, leftover=True)

    async def sweep(self, record: InstanceRecord) -> None:
        """Try again to remove what a failed command has left."""
        undone = await undo(self._parts, record.uuid, record.attempt, may_run=False)
        if undone.complete:
            self._book.forget(record.uuid)
            self._store.mark_gone(record.uuid)
            log.info("Removed what was left of instance %s.", record.uuid)

    # ----- other orders ---------------------------------------------------------------------------------------------

    async def carry_out(self, command: Command, work: CommandHandler, cancelled: threading.Event) -> None:
        """Do what an order says, and report its end; ``cancelled`` tells it to stop between two steps."""
        uuid = command.instance_id
        known = self._store.specs({uuid}).get(uuid)
        means = CommandContext(command, self._parts, known, self._teller(command), cancelled)
        pool = self._parts.threads.work if work.heavy else self._parts.threads.power
        self._store.begin(command)
        try:
            async with self._slots if work.heavy else contextlib.nullcontext():
                state = await in_thread(pool, lambda: work.carry(means, command.body))
        except CommandCancelledError:
            self._outbox.failed(command, CANCELLED)
        except Exception as error:  # noqa: BLE001 (every failure has the same end: report)
            self._log(f"{type(command.body).__name__} of instance {uuid}", error)
            self._outbox.failed(command, failure_of(error, ORDER_FAILED))
        else:
            self._store.describe(command)
            self._outbox.finished(command, state)
            self._book.reported(Guest(uuid, command.attempt, state))

    def _teller(self, command: Command) -> Tell:
        loop = asyncio.get_running_loop()

        def tell(step: str, started_at: float, finished_at: float, facts: Mapping[str, str]) -> None:
            report = StepReport(step, started_at, finished_at, dict(facts))
            loop.call_soon_threadsafe(lambda: self._outbox.step(command, report))

        return tell


def _runs(guest: Guest | None, attempt: int) -> bool:
    return guest is not None and guest.attempt == attempt and guest.power_state == PowerState.RUNNING
