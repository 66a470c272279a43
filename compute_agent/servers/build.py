"""The steps of a build in running order, each with what undoes it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import BuildRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import (
    APPLY_FIREWALL,
    BUILD_STEPS,
    CREATE_DISK,
    CREATE_SEED,
    DEFINE_DOMAIN,
    FETCH_IMAGE,
    PLUG_NETWORK,
    START_GUEST,
    WAIT_FOR_BOOT,
)
from compute_agent.engine.outbox import Outbox, StepReport
from compute_agent.engine.threads import in_thread
from compute_agent.servers.boot_sources import BootSources, fetch
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import BootFiles

WATCHABLE = 0.05
"""Seconds after which a step that still goes on is announced."""

Detail = Mapping[str, str]
_NOTHING: Detail = {}


class BuildCancelledError(Exception):
    """The build was told to stop, and stopped between two steps."""


class Build:
    """One attempt to make one guest."""

    def __init__(self, command: Command, request: BuildRequest, parts: HostServices, outbox: Outbox) -> None:
        """Prepare the steps; nothing is touched yet."""
        self.command = command
        self.spec: InstanceSpec = request.instance
        self.cancelled = threading.Event()
        self._parts = parts
        self._outbox = outbox
        self._bits: BootSources | None = None
        self._power = PowerState.NOSTATE
        self._wake = asyncio.Event()
        self._reached = -1
        self._work: dict[str, Callable[[], Detail]] = {
            PLUG_NETWORK: self._plug_network,
            FETCH_IMAGE: self._fetch_image,
            CREATE_DISK: self._create_disk,
            CREATE_SEED: self._create_seed,
            DEFINE_DOMAIN: self._define_domain,
            APPLY_FIREWALL: self._apply_firewall,
            START_GUEST: self._start_guest,
            WAIT_FOR_BOOT: self._wait_for_boot,
        }

    def cancel(self) -> None:
        """Let the build stop before its next step."""
        self.cancelled.set()
        self._wake.set()

    async def when_cancelled(self) -> None:
        """Wait until somebody cancels the build."""
        await self._wake.wait()

    def reached(self, step: str) -> bool:
        """Say whether ``step`` was begun."""
        return self._reached >= BUILD_STEPS.index(step)

    async def run(self) -> PowerState:
        """Take every step in order and return the guest's power state; raises what a step raised, or
        BuildCancelledError.
        """
        for number, step in enumerate(BUILD_STEPS):
            self._check_cancelled()
            self._reached = number
            await self._take(step)
        self._check_cancelled()
        return self._power

    async def _take(self, step: str) -> None:
        loop = asyncio.get_running_loop()
        started_at = time.time()
        announced: list[int] = []
        announcement = loop.call_later(
            WATCHABLE, lambda: announced.append(self._outbox.step_started(self.command, step, started_at))
        )
        try:
            detail = await in_thread(self._parts.threads.work, lambda: self._carry_out(step))
        finally:
            announcement.cancel()
        report = StepReport(step, started_at, time.time(), detail)
        self._outbox.step(self.command, report, replaces=announced[0] if announced else None)

    def _carry_out(self, step: str) -> Detail:
        detail = self._work[step]()
        if self._parts.after_step is not None:
            self._parts.after_step(step, self.cancelled)
        return detail

    def _check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise BuildCancelledError

    # ----- the steps; each may be repeated --------------------------------------------------------------------------

    def _plug_network(self) -> Detail:
        self._parts.network.plug(self.spec)
        return _NOTHING

    def _fetch_image(self) -> Detail:
        spec = self.spec
        self._bits = bits = fetch(self._parts.images, spec.uuid, spec.image, spec.kernel, spec.ramdisk)
        return bits.facts

    def _create_disk(self) -> Detail:
        bits = self._bits
        self._parts.driver.create_disk(self.spec, bits.disk if bits else None)
        self._parts.driver.create_boot_files(self.spec, bits.boot if bits else BootFiles())
        return _NOTHING

    def _create_seed(self) -> Detail:
        self._parts.driver.create_seed(self.spec)
        return _NOTHING

    def _define_domain(self) -> Detail:
        self._parts.driver.define(self.spec, self.command.attempt)
        return _NOTHING

    def _apply_firewall(self) -> Detail:
        self._parts.network.apply_firewall(self.spec)
        return _NOTHING

    def _start_guest(self) -> Detail:
        self._parts.driver.start(self.spec.uuid)
        return _NOTHING

    def _wait_for_boot(self) -> Detail:
        self._power = self._parts.driver.wait_for_boot(self.spec.uuid, self._parts.boot_timeout)
        return _NOTHING
