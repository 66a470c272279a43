"""The steps that create and start a guest: all of them for a build, some for other commands."""

from functools import partial

from compute_agent.contract.build import InstanceSpec, boot_volume
from compute_agent.contract.steps import (
    APPLY_FIREWALL,
    CREATE_DISK,
    CREATE_SEED,
    DEFINE_DOMAIN,
    PLUG_NETWORK,
    START_GUEST,
    WAIT_FOR_BOOT,
)
from compute_agent.engine.context import Step
from compute_agent.servers.boot_sources import BootSources
from compute_agent.servers.firmware import restore
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import Stopped


def make_steps(
    host: HostServices,
    spec: InstanceSpec,
    attempt: int,
    stopped: Stopped,
    *,
    keep_ephemeral: bool = False,
    firmware: str = "",
    take_root: bool = False,
) -> list[Step]:
    """Return the steps that create a stopped guest. Existing parts of the guest are replaced.

    For a guest that boots from a volume, only the kernel and the ramdisk are fetched, if the spec names them.
    ``firmware``: SHA-256 of the firmware state to restore; empty: none. ``take_root``: use the root disk that the guest
    has in the host's pool, if there is one; the image may then be deleted from the cloud.
    """
    image = spec.image if boot_volume(spec) is None else None
    if take_root and image is not None and not image.hash_value:
        image = None
    sources = BootSources(
        host.images, spec.uuid, image, spec.kernel, spec.ramdisk, stopped, partial(host.driver.needs_image, spec)
    )

    def create_disk() -> None:
        if not (take_root and host.driver.adopt_disks(spec, sources.disk)):
            host.driver.create_disk(spec, sources.disk, keep_ephemeral=keep_ephemeral)
        host.driver.create_boot_files(spec, sources.boot)
        if firmware:
            restore(host, spec.uuid, firmware, stopped)

    return [
        Step(PLUG_NETWORK, partial(host.network.plug, spec)),
        *([sources.step()] if sources.any_needed else []),
        Step(CREATE_DISK, create_disk),
        Step(CREATE_SEED, partial(host.driver.create_seed, spec)),
        Step(DEFINE_DOMAIN, partial(host.driver.define, spec, attempt)),
        Step(APPLY_FIREWALL, partial(host.network.apply_firewall, spec)),
    ]


def start_steps(host: HostServices, uuid: str) -> list[Step]:
    """Return the steps after which a defined guest runs."""
    return [
        Step(START_GUEST, partial(host.driver.start, uuid)),
        Step(WAIT_FOR_BOOT, partial(host.driver.wait_for_boot, uuid, host.boot_timeout)),
    ]
