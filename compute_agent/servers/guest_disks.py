"""Work on disks inside a guest: mounts, extended file systems, and trims."""

from compute_agent.contract.commands import TrimRequest
from compute_agent.contract.guest_disks import ExtendFileSystemRequest, MountDiskRequest
from compute_agent.contract.power import PowerState
from compute_agent.engine.context import CommandContext
from compute_agent.servers.base import GuestHandler


class MountDisk(GuestHandler[MountDiskRequest]):
    """Lets the guest agent mount a disk, which is formatted before if it is empty."""

    async def change(self, context: CommandContext, request: MountDiskRequest) -> PowerState:
        await context.work(
            lambda: self.driver.mount_disk(context.subject.id, request.serial, request.directory, request.timeout)
        )
        return await self.power_state(context)


class ExtendFileSystem(GuestHandler[ExtendFileSystemRequest]):
    """Lets the guest agent extend a file system to the size of its disk."""

    async def change(self, context: CommandContext, request: ExtendFileSystemRequest) -> PowerState:
        await context.work(lambda: self.driver.extend_file_system(context.subject.id, request.serial, request.timeout))
        return await self.power_state(context)


class Trim(GuestHandler[TrimRequest]):
    """Lets the guest agent discard unused disk blocks, whose space returns to this host."""

    async def change(self, context: CommandContext, request: TrimRequest) -> PowerState:
        await context.work(lambda: self.driver.trim(context.subject.id, request.timeout))
        return await self.power_state(context)
