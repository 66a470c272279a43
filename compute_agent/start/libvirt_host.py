"""A real host: libvirt, the Linux network and the image cache.  Imported only when the driver is libvirt."""

from typing import cast

from compute_agent.engine.threads import Threads
from compute_agent.images.cache import ImageCache
from compute_agent.link.console_dial import ConsoleDialer
from compute_agent.link.image_fetch import ImageFetcher
from compute_agent.link.image_send import ImageSender
from compute_agent.network.linux import LinuxNetwork
from compute_agent.servers.services import HostServices
from compute_agent.settings import AgentSettings
from compute_agent.start.assembly import Machine
from compute_agent.virt.libvirt.domain_xml import VirtType
from compute_agent.virt.libvirt.driver import LibvirtDriver
from compute_agent.virt.libvirt.paths import HostPaths


def libvirt_services(settings: AgentSettings, threads: Threads, machine: Machine) -> HostServices:
    """Put a real host together; nothing is connected yet."""
    disks = HostPaths(settings.state_dir).instances
    return HostServices(
        driver=LibvirtDriver(settings, cast(VirtType, machine.virt_type)),
        network=LinuxNetwork(settings),
        images=ImageCache(settings.state_dir / "images", ImageFetcher(settings, machine.opener), disks),
        threads=threads,
        boot_timeout=settings.boot_timeout,
        outgoing=ImageSender(settings, machine.opener),
        consoles=ConsoleDialer(settings, machine.opener, threads),
    )
