"""Assembles a host from its settings. Modules for real hypervisors are imported only if needed."""

from collections.abc import Callable

from compute_agent.engine.threads import Threads
from compute_agent.host import Host
from compute_agent.link.backup_link import BackupLink
from compute_agent.link.console_dial import ConsoleDialer
from compute_agent.link.firmware_link import FirmwareLink
from compute_agent.link.image_send import ImageSender
from compute_agent.network.fake import FakeNetwork
from compute_agent.servers.services import HostServices
from compute_agent.settings import AgentSettings
from compute_agent.start.machine import Machine, libraries
from compute_agent.start.options import fault_point
from compute_agent.start.volumes import RESTORES, make_volumes
from compute_agent.virt.fake.driver import FakeDriver
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.virt.fake.migration import ROUNDS
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.services import Outside

LOOPBACK = "127.0.0.1"
"""The address at which simulated hosts receive guests: they share a machine."""
STORE_NAME = "agent.sqlite3"


MakeServices = Callable[[AgentSettings, Threads, Machine], HostServices]
"""Assembles a host's parts."""


def fake_services(
    settings: AgentSettings, threads: Threads, machine: Machine, make_driver: Callable[..., FakeDriver] = FakeDriver
) -> HostServices:
    """Create a simulated host. It stores its guests in the state folder and changes nothing else."""
    vcpus, memory_mb, disk_gb = settings.fake_capacity
    driver = make_driver(settings.state_dir, vcpus=vcpus, memory_mb=memory_mb, disk_gb=disk_gb)
    driver.fault = fault_point(settings.driver)
    driver.migration_pause = settings.fake_move_seconds / ROUNDS
    if settings.fake_traits is not None:
        driver.traits = settings.fake_traits
    images, outgoing = FakeImageCache(), ImageSender(settings, machine.opener)
    outside = Outside(images, outgoing, BackupLink(settings, machine.opener), settings.state_dir / RESTORES)
    nowhere = settings.state_dir / "run"  # simulated volumes are never opened
    return HostServices(
        driver=driver,
        network=FakeNetwork(settings.state_dir / "network" / "documents"),
        images=images,
        threads=threads,
        boot_timeout=settings.boot_timeout,
        after_step=driver.fault.strike if driver.fault else None,
        outgoing=outgoing,
        firmware=FirmwareLink(settings, machine.opener),
        volumes=make_volumes(
            settings,
            Daemons(nowhere, nowhere, Address(str), nowhere),
            outside,
        ),
        consoles=ConsoleDialer(settings, machine.opener, threads),
        migrations=MigrationAddress(lambda: LOOPBACK, None, settings.volume_ports),
    )


def services_of(settings: AgentSettings, threads: Threads, machine: Machine) -> HostServices:
    """Create the parts for the settings' driver.  Raises HostUnfitError."""
    if settings.simulated:
        return fake_services(settings, threads, machine)
    with libraries():
        from compute_agent.start import libvirt_host  # noqa: PLC0415 - simulated hosts lack its libraries
    return libvirt_host.libvirt_services(settings, threads, machine)


def make_host(
    settings: AgentSettings, threads: Threads, machine: Machine, make_services: MakeServices = services_of
) -> Host:
    """Create the host of the settings, but do not start it. Raises HostUnfitError."""
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    services = make_services(settings, threads, machine)
    return Host(settings.host, services, settings.state_dir / STORE_NAME, durable=settings.durable)
