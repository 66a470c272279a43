"""Power commands, and setting a password inside the guest."""

import contextlib

from compute_agent.contract.build import InstanceSpec, boot_volume
from compute_agent.contract.commands import CrashDumpRequest, PasswordRequest, PowerRequest
from compute_agent.contract.power import PowerState
from compute_agent.engine.context import CommandContext
from compute_agent.servers.base import GuestHandler
from compute_agent.virt.errors import GuestGoneError, InstanceNotFoundError


class Power(GuestHandler[PowerRequest]):
    """Changes the guest's power state."""

    async def change(self, context: CommandContext, request: PowerRequest) -> PowerState:
        uuid, known = context.subject.id, self.records.spec(context.subject.id)
        if request.action in {"start", "resume", "reboot_hard"}:
            await context.work(lambda: self._define_again(uuid, context.generation, known))
        return await context.work(lambda: self._switch(uuid, request))

    def _switch(self, uuid: str, request: PowerRequest) -> PowerState:
        driver = self.driver
        match request.action:
            case "start":
                driver.start(uuid)
                return driver.wait_for_boot(uuid, self.host.boot_timeout)
            case "stop":
                driver.stop(uuid, request.timeout)
            case "reboot_soft" | "reboot_hard":
                driver.reboot(uuid, hard=request.action == "reboot_hard", timeout=request.timeout)
            case "pause":
                driver.pause(uuid)
            case "unpause":
                driver.unpause(uuid)
            case "suspend":
                driver.suspend(uuid)
            case "resume":
                driver.resume(uuid)
                return driver.wait_for_boot(uuid, self.host.boot_timeout)
        return driver.power_state(uuid)

    def _define_again(self, uuid: str, attempt: int, known: InstanceSpec | None) -> None:
        """Define a guest again if its domain was removed manually, from the disk on this host.

        Raises GuestGoneError if the disk is missing, or if this host has lost the guest's spec.
        """
        with contextlib.suppress(InstanceNotFoundError):
            self.driver.power_state(uuid)
            return
        if known is None or not (boot_volume(known) or self.driver.has_disk(uuid)):
            raise GuestGoneError
        self.network.plug(known)
        self.driver.define(known, attempt)
        self.network.apply_firewall(known)


class Password(GuestHandler[PasswordRequest]):
    """Sets a password inside the guest."""

    async def change(self, context: CommandContext, request: PasswordRequest) -> PowerState:
        uuid = context.subject.id
        await context.work(lambda: self.driver.set_password(uuid, request.user, request.password))
        return await self.power_state(context)


class CrashDump(GuestHandler[CrashDumpRequest]):
    """Sends an NMI to the guest, so that its kernel dumps itself."""

    async def change(self, context: CommandContext, request: CrashDumpRequest) -> PowerState:
        uuid = context.subject.id
        await context.work(lambda: self.driver.crash_dump(uuid))
        return await self.power_state(context)
