"""Calls and their answers. A call is a request of the portal to an agent about a guest; it is answered once and not
stored.
"""

from typing import ClassVar, Literal

from compute_agent.contract.base import Message
from compute_agent.contract.build import Frozen
from compute_agent.contract.guest_disks import InspectDiskCall, InspectedDisk
from compute_agent.contract.migration import ControlMigrationCall, MigrationControlled
from compute_agent.contract.volume import (
    GuestVolumes,
    GuestVolumesCall,
    PoolContents,
    PoolContentsCall,
    UnmanagedDisks,
    UnmanagedDisksCall,
)

FILE_SYSTEMS = 5
"""From this version, agents list the file systems of guests."""
MOST_FILE_SYSTEMS = 64


class ConsoleOutputCall(Message, frozen=True):
    """Read the last ``lines`` lines of the guest's console log (None: all lines). The answer, ``ConsoleOutput``, has at
    most ``max_bytes``.
    """

    instance_id: str
    lines: int | None = None
    max_bytes: int = 262_144


class FollowConsoleCall(Message, frozen=True):
    """Follow the guest's console log. The answer is ``ConsoleOpened``.

    The agent dials the tunnel, as for ``OpenConsoleCall``, and sends pieces (``console_pieces``) until either side
    ends: first the end of the stored log, at most one piece, then new output. If a piece does not begin where the
    previous one ended, the log was truncated.
    """

    instance_id: str
    tunnel: str
    share: str = ""  # as in OpenConsoleCall


class DiagnosticsCall(Message, frozen=True):
    """Read the guest's power state and counters.  The answer is ``Diagnostics``."""

    instance_id: str


class FileSystemsCall(Message, frozen=True):
    """List the mounted file systems of a running guest through its guest agent. The answer is ``FileSystems``, or a
    ``CallError`` with the code ``unsupported`` if no agent answers.
    """

    since: ClassVar[int] = FILE_SYSTEMS
    instance_id: str


class OpenConsoleCall(Message, frozen=True):
    """Open a tunnel from the guest's console to the portal. The answer is ``ConsoleOpened``.

    The agent dials ``/ws/agent/consoles/{tunnel}`` with its credential, and forwards bytes in both directions until
    either side ends.
    """

    instance_id: str
    protocol: Literal["vnc", "serial"]
    tunnel: str
    share: str = ""  # the user or project whose limit of tunnels on the host applies; empty: only the host's


class OpenTunnelCall(Message, frozen=True):
    """Connect to a TCP port at a fixed address of the guest, bypassing its security groups. The answer is
    ``TunnelOpened``.

    The agent dials ``/ws/agent/tunnels/{tunnel}``, as for ``OpenConsoleCall``, and forwards bytes in both directions.
    An empty frame ends one direction; a disconnect without an empty frame is an abort. A ``CallError`` may also have
    the codes ``refused`` and ``unreachable``.
    """

    instance_id: str
    port_id: str
    address: str
    port: int
    tunnel: str
    share: str = ""  # as in OpenConsoleCall


CallBody = (
    ConsoleOutputCall
    | ControlMigrationCall
    | DiagnosticsCall
    | FileSystemsCall
    | FollowConsoleCall
    | GuestVolumesCall
    | InspectDiskCall
    | OpenConsoleCall
    | OpenTunnelCall
    | PoolContentsCall
    | UnmanagedDisksCall
)


class Call(Message, frozen=True):
    """A call with its id. The answer repeats the id."""

    id: str
    body: CallBody


class ConsoleOutput(Message, frozen=True):
    """Output of the guest, decoded as UTF-8 with replacement; untrusted."""

    text: str


class CpuDiagnostics(Frozen, frozen=True):
    """The counters of a virtual CPU since the guest was started; None: unknown."""

    id: int
    time_ns: int | None = None
    utilisation: int | None = None  # percent


class NicDiagnostics(Frozen, frozen=True):
    """One interface's counters since the guest was started, in octets and packets."""

    mac_address: str
    rx_octets: int | None = None
    rx_errors: int | None = None
    rx_drop: int | None = None
    rx_packets: int | None = None
    tx_octets: int | None = None
    tx_errors: int | None = None
    tx_drop: int | None = None
    tx_packets: int | None = None
    tap: str = ""


class DiskDiagnostics(Frozen, frozen=True):
    """One disk's counters since the guest was started."""

    read_bytes: int | None = None
    read_requests: int | None = None
    write_bytes: int | None = None
    write_requests: int | None = None
    errors_count: int | None = None
    target: str = ""  # "vda"
    volume_id: str = ""  # empty: not a volume


class Diagnostics(Message, frozen=True):
    """The hypervisor's current data about a guest; unavailable values are None."""

    power_state: int
    uptime: float | None = None  # s
    memory_mb: int | None = None  # maximum
    memory_used_mb: int | None = None
    cpu_time_ns: int | None = None
    driver: str = "libvirt"
    hypervisor: str = ""  # "qemu", "kvm" or "fake"
    hypervisor_os: str = ""
    config_drive: bool = False
    cpus: list[CpuDiagnostics] = []
    nics: list[NicDiagnostics] = []
    disks: list[DiskDiagnostics] = []


class FileSystem(Frozen, frozen=True):
    """A mounted file system as the guest reports it; untrusted."""

    mount_point: str
    kind: str = ""  # "ext4"
    total_bytes: int | None = None
    used_bytes: int | None = None
    disks: list[str] = []  # "vdb"


class FileSystems(Message, frozen=True):
    """The mounted file systems of a guest, at most ``MOST_FILE_SYSTEMS``."""

    file_systems: list[FileSystem]


class ConsoleOpened(Message, frozen=True):
    """The agent has opened the console and dials the tunnel."""


class TunnelOpened(Message, frozen=True):
    """The guest has accepted the connection, and the agent dials the tunnel."""


class CallError(Message, frozen=True):
    """The call failed; ``code`` is one of ``not_found``, ``unsupported``, ``busy``, ``failed``; for a tunnel also
    ``refused`` and ``unreachable``, for a disk of a guest ``guest_programs_disabled`` and ``guest_disk``.
    """

    code: str
    message: str


CallResult = (
    ConsoleOutput
    | Diagnostics
    | FileSystems
    | ConsoleOpened
    | GuestVolumes
    | InspectedDisk
    | MigrationControlled
    | TunnelOpened
    | PoolContents
    | UnmanagedDisks
    | CallError
)
