"""A real host: libvirt, the Linux network and the image cache. This module is imported only if the driver
is libvirt.
"""

import json
from collections.abc import Callable
from typing import cast

from compute_agent.engine.threads import Threads
from compute_agent.images.cache import ImageCache
from compute_agent.link.backup_link import BackupLink
from compute_agent.link.console_dial import ConsoleDialer
from compute_agent.link.errors import HostUnfitError
from compute_agent.link.firmware_link import FirmwareLink
from compute_agent.link.image_fetch import ImageFetcher
from compute_agent.link.image_send import ImageSender
from compute_agent.metadata.service import MetadataService
from compute_agent.network.linux import LinuxNetwork
from compute_agent.servers.root_disks import PoolRootDisks
from compute_agent.servers.sending_guests import SendingGuests
from compute_agent.servers.services import HostServices
from compute_agent.settings import AgentSettings
from compute_agent.start.machine import Machine
from compute_agent.start.volumes import RESTORES, SERVED, make_volumes, rights_of
from compute_agent.virt.driver import ComputeDriver
from compute_agent.virt.libvirt.domain_xml import VirtType
from compute_agent.virt.libvirt.driver import LibvirtDriver
from compute_agent.virt.libvirt.paths import HostPaths
from compute_agent.virt.machine.certificates import HostCertificates
from compute_agent.virt.machine.host_address import Certificates
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.virt.processes import storage_account
from compute_agent.volumes.copies.disk_transfer import DiskTransfer
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.services import Outside


def libvirt_services(settings: AgentSettings, threads: Threads, machine: Machine) -> HostServices:
    """Assemble a real host, without connecting anything."""
    metadata = MetadataService()
    images = ImageCache(
        settings.state_dir / "images",
        ImageFetcher(settings, machine.opener),
        HostPaths(settings.state_dir).instances,
        storage_account.choose(settings.storage_user),
    )
    outgoing = ImageSender(settings, machine.opener)
    backups = BackupLink(settings, machine.opener)
    certificates = HostCertificates(settings.state_dir)
    network = LinuxNetwork(settings, metadata)
    daemons = daemons_of(settings, certificates, network.reached_at)
    volumes = make_volumes(settings, daemons, Outside(images, outgoing, backups, settings.state_dir / RESTORES))
    driver: ComputeDriver = LibvirtDriver(settings, cast(VirtType, machine.virt_type))
    if settings.root_disks and volumes is not None:
        driver = PoolRootDisks(driver, volumes, settings.root_disks, settings.host)
    transfer = DiskTransfer(daemons)
    driver = SendingGuests(driver, transfer)
    return HostServices(
        driver=driver,
        network=network,
        images=images,
        threads=threads,
        boot_timeout=settings.boot_timeout,
        outgoing=outgoing,
        firmware=FirmwareLink(settings, machine.opener),
        consoles=ConsoleDialer(settings, machine.opener, threads),
        metadata=metadata,
        certificates=certificates,
        migrations=MigrationAddress(network.reached_at, certificates, settings.volume_ports),
        volumes=volumes,
        transfer=transfer,
        vendor_data=_vendor_data(settings),
    )


def daemons_of(settings: AgentSettings, certificates: Certificates | None, reached_at: Callable[[], str]) -> Daemons:
    """Return the storage daemons of a host.  ``reached_at`` returns its address for other hosts."""
    paths = HostPaths(settings.state_dir)
    runtime = paths.short.with_name(f"{paths.short.name}-volumes")
    address = Address(reached_at, certificates, settings.volume_ports)
    return Daemons(runtime, paths.exports, address, settings.state_dir / SERVED, rights_of(settings))


def _vendor_data(settings: AgentSettings) -> bytes:
    """Return the vendor data for every guest of this host.  Raises HostUnfitError if it is not JSON."""
    if settings.vendor_data is None:
        return b"{}"
    try:
        return json.dumps(json.loads(settings.vendor_data.read_bytes())).encode()
    except (OSError, ValueError) as error:
        raise HostUnfitError(f"The file of --vendor-data cannot be read as JSON: {error}") from error
