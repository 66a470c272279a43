"""A real host: libvirt, the Linux network and the image cache.  Imported only when the driver is libvirt."""

import json
from typing import cast

from compute_agent.engine.threads import Threads
from compute_agent.images.cache import ImageCache
from compute_agent.link.console_dial import ConsoleDialer
from compute_agent.link.errors import HostUnfitError
from compute_agent.link.image_fetch import ImageFetcher
from compute_agent.link.image_send import ImageSender
from compute_agent.metadata.service import MetadataService
from compute_agent.network.linux import LinuxNetwork
from compute_agent.servers.services import HostServices
from compute_agent.settings import AgentSettings
from compute_agent.start.assembly import Machine
from compute_agent.virt.libvirt.domain_xml import VirtType
from compute_agent.virt.libvirt.driver import LibvirtDriver
from compute_agent.virt.libvirt.paths import HostPaths


def libvirt_services(settings: AgentSettings, threads: Threads, machine: Machine) -> HostServices:
    """Put a real host together; nothing is connected yet."""
    metadata = MetadataService()
    disks = HostPaths(settings.state_dir).instances
    return HostServices(
        driver=LibvirtDriver(settings, cast(VirtType, machine.virt_type)),
        network=LinuxNetwork(settings, metadata),
        images=ImageCache(settings.state_dir / "images", ImageFetcher(settings, machine.opener), disks),
        threads=threads,
        boot_timeout=settings.boot_timeout,
        outgoing=ImageSender(settings, machine.opener),
        consoles=ConsoleDialer(settings, machine.opener, threads),
        metadata=metadata,
        vendor_data=_vendor_data(settings),
    )


def _vendor_data(settings: AgentSettings) -> bytes:
    """Return what every guest of this host is told besides.  Raises HostUnfitError for what is not JSON."""
    if settings.vendor_data is None:
        return b"{}"
    try:
        return json.dumps(json.loads(settings.vendor_data.read_bytes())).encode()
    except (OSError, ValueError) as error:
        raise HostUnfitError(f"The file of --vendor-data cannot be read as JSON: {error}") from error
