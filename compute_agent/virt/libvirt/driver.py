"""The libvirt driver: real guests of QEMU, with KVM or without."""

from compute_agent.virt.driver import ComputeDriver
from compute_agent.virt.libvirt.consoles import ConsoleOperations
from compute_agent.virt.libvirt.firmware_states import FirmwareOperations
from compute_agent.virt.libvirt.guest_disks import GuestDiskOperations
from compute_agent.virt.libvirt.host import HostOperations
from compute_agent.virt.libvirt.interfaces import InterfaceOperations
from compute_agent.virt.libvirt.migration import MigrationOperations
from compute_agent.virt.libvirt.moving import MoveOperations
from compute_agent.virt.libvirt.power import PowerOperations
from compute_agent.virt.libvirt.rescue import RescueOperations
from compute_agent.virt.libvirt.resizing import ResizeOperations
from compute_agent.virt.libvirt.snapshots import SnapshotOperations
from compute_agent.virt.libvirt.usage import UsageOperations
from compute_agent.virt.libvirt.volumes import VolumeOperations


class LibvirtDriver(
    HostOperations,
    UsageOperations,
    GuestDiskOperations,
    PowerOperations,
    RescueOperations,
    ResizeOperations,
    MoveOperations,
    SnapshotOperations,
    FirmwareOperations,
    InterfaceOperations,
    VolumeOperations,
    MigrationOperations,
    ConsoleOperations,
    ComputeDriver,
):
    """Implements ``ComputeDriver`` with libvirt; see ``settings.libvirt_uri`` for the kinds of libvirt."""
