"""Moves a stopped guest between hosts: sends it, receives it, and restores it on its old host after a failed move."""

from functools import partial

import msgspec
from msgspec.structs import replace

from compute_agent.contract.build import boot_volume, is_cd
from compute_agent.contract.commands import ReceiveGuestRequest, ReturnGuestRequest, SendGuestRequest
from compute_agent.contract.moves import ORIGIN, GuestOrigin
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import (
    APPLY_FIREWALL,
    COPY_DISK,
    CREATE_DISK,
    CREATE_SEED,
    DEFINE_DOMAIN,
    EXPORT_DISKS,
    PLUG_NETWORK,
    STOP_GUEST,
    UPLOAD_FIRMWARE,
)
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.outcomes import Outcome
from compute_agent.servers.base import GuestHandler, ServerHandler
from compute_agent.servers.boot_sources import BootSources
from compute_agent.servers.build import Creation, undone_by
from compute_agent.servers.firmware import restore, upload
from compute_agent.servers.guest_steps import start_steps
from compute_agent.servers.removal import Removal
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import UnsupportedError

NO_TRANSFER = "This host cannot move guests."


class SendGuest(ServerHandler[SendGuestRequest]):
    """Stops the guest, stores its firmware state at the portal, and exports its disks.

    A guest whose disks certainly cannot be exported keeps running.
    """

    heavy = True

    async def run(self, context: CommandContext, request: SendGuestRequest) -> Outcome:
        uuid = context.subject.id
        origin = GuestOrigin()

        def export() -> None:
            nonlocal origin
            sent = self.driver.disks_to_send(uuid)
            if sent.files:
                if self.host.transfer is None:
                    raise UnsupportedError(NO_TRANSFER)
                origin = self.host.transfer.export(uuid, sent, request.target)
            origin = replace(origin, root_pool=sent.root_pool)

        await context.work(partial(self._check, uuid))
        steps = [Step(STOP_GUEST, partial(self.driver.stop, uuid, request.timeout))]
        if request.firmware_state:
            steps.append(Step(UPLOAD_FIRMWARE, lambda: upload(self.host, uuid, context.stopped)))
        steps.append(Step(EXPORT_DISKS, export))
        await context.run_steps(steps)
        detail = {ORIGIN: msgspec.json.encode(origin).decode()}
        return Outcome(power_state=await self.power_state(context), detail=detail)

    def _check(self, uuid: str) -> None:
        """Check the conditions of the export while the guest still runs. Raises HostError."""
        self.driver.check_may_leave(uuid)
        if self.host.transfer is not None:
            self.host.transfer.check()


class ReceiveGuest(Creation[ReceiveGuestRequest], ServerHandler[ReceiveGuestRequest]):
    """Creates a guest as a build does, with disks copied from the host that it leaves."""

    def _continues(self, request: ReceiveGuestRequest) -> bool:
        return bool(request.origin.disks)

    def _keeps_root(self, request: ReceiveGuestRequest) -> bool:
        return bool(request.origin.root_pool)

    def _steps(self, context: CommandContext, request: ReceiveGuestRequest, removal: Removal | None) -> list[Step]:
        spec = request.instance
        steps = receive_steps(self.host, request, context.generation, context.stopped)
        steps += start_steps(self.host, spec.uuid) if request.start else []
        return steps if removal is None else undone_by(removal, steps, COPY_DISK)


class ReturnGuest(GuestHandler[ReturnGuestRequest]):
    """Defines the guest again from the disks that it still has here, and starts it if requested. A running guest is
    unchanged.
    """

    heavy = resumes_late = True

    async def change(self, context: CommandContext, request: ReturnGuestRequest) -> PowerState:
        spec = request.instance
        transfer, generation = self.host.transfer, context.generation
        if await self.power_state(context) == PowerState.RUNNING:
            return PowerState.RUNNING
        if transfer is not None:
            await context.work(lambda: transfer.end(spec.uuid))
        await context.run_steps(
            [
                Step(PLUG_NETWORK, partial(self.host.network.plug, spec)),
                Step(CREATE_DISK, partial(self.driver.restore_left_disk, spec.uuid)),
                Step(DEFINE_DOMAIN, partial(self.driver.define, spec, generation)),
                Step(APPLY_FIREWALL, partial(self.host.network.apply_firewall, spec)),
                *(start_steps(self.host, spec.uuid) if request.start else []),
            ]
        )
        return PowerState.RUNNING if request.start else await self.power_state(context)


def receive_steps(host: HostServices, request: ReceiveGuestRequest, attempt: int, stopped: Stopped) -> list[Step]:
    """Return the steps that create a stopped guest with the disks of its origin.

    An image that was deleted from the cloud is not fetched: the root disk is then copied with the image's data.
    """
    spec, origin = request.instance, request.origin
    needed = boot_volume(spec) is None and bool(spec.image.hash_value) and (not origin.root_pool or is_cd(spec.image))
    image = spec.image if needed else None
    sources = BootSources(host.images, spec.uuid, image, spec.kernel, spec.ramdisk, stopped)

    def copy() -> None:
        if origin.disks and host.transfer is None:
            raise UnsupportedError(NO_TRANSFER)
        fetch = host.transfer.fetch(spec.uuid, attempt, origin, stopped) if host.transfer and origin.disks else _nothing
        host.driver.receive_disks(spec, sources.disk, origin, fetch)

    def boot_files() -> None:
        host.driver.create_boot_files(spec, sources.boot)
        if request.firmware_state:
            restore(host, spec.uuid, request.firmware_state, stopped)

    return [
        Step(PLUG_NETWORK, partial(host.network.plug, spec)),
        *([sources.step()] if sources.any_needed else []),
        Step(COPY_DISK, copy),
        Step(CREATE_DISK, boot_files),
        Step(CREATE_SEED, partial(host.driver.create_seed, spec)),
        Step(DEFINE_DOMAIN, partial(host.driver.define, spec, attempt)),
        Step(APPLY_FIREWALL, partial(host.network.apply_firewall, spec)),
    ]


def _nothing(*_: object) -> None:
    raise UnsupportedError("The guest has no disks to copy.")
