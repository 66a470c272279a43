"""The state of the fake hypervisor: guests, disks and seeds of instances, and console output."""

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from compute_agent.contract.build import GuestDisk, InstanceSpec, boot_volume
from compute_agent.contract.calls import CpuDiagnostics, Diagnostics, DiskDiagnostics, NicDiagnostics
from compute_agent.contract.cpu import Cpu
from compute_agent.contract.firmware_state import FirmwareState
from compute_agent.contract.power import PowerState
from compute_agent.virt.driver import HostCapacity
from compute_agent.virt.machine.uptime import uptime_line

PROCESSOR = {
    "arch": "x86_64",
    "model": "novella-fake",
    "vendor": "Novella",
    "features": "fake,pge,clflush",
    "cores": "1",
    "threads": "1",
}

GUEST_CPU = Cpu(PROCESSOR["model"], PROCESSOR["vendor"], sorted(PROCESSOR["features"].split(",")))

_BOOT_LOG = (
    (0.00, "SeaBIOS (version 1.16.2-fake)"),
    (0.02, "Booting from Hard Disk..."),
    (0.05, "[    0.000000] Linux version 6.1.0-novella (fake) #1 SMP"),
    (0.10, "[    0.000000] Command line: console=tty0 console=ttyS0 quiet root=LABEL=novella-rootfs"),
    (0.20, "[    0.112041] smpboot: Allowing {vcpus} CPUs, 0 hotplug CPUs"),
    (0.25, "[    0.133370] Memory: {memory_mb}M available"),
    (0.40, "[    0.402113] virtio_net virtio0 eth0: {mac}"),
    (0.60, "rc: lease of {address} obtained"),
    (0.80, "rc: metadata drive instance-id={uuid} hostname={hostname}"),
    (1.00, "=== Novella guest: {hostname} {address} ==="),
    (1.02, ""),
    (1.05, "{hostname} login: "),
)
"""Console output: seconds after the start, and the line."""

CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
_HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")


class FakeGuest(msgspec.Struct):
    """One domain of the fake hypervisor. ``boots`` are pairs of start and end (0: running), in Unix seconds."""

    uuid: str
    attempt: int
    hostname: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    mac: str
    address: str
    power: int = PowerState.SHUTDOWN
    boots: list[tuple[float, float]] = []
    rescued: bool = False
    before: tuple[int, int, int] | None = None  # vCPUs, MiB, GiB before a resize
    interfaces: list[str] = []  # hardware addresses, in order
    volumes: list[GuestDisk] = []
    root: bool = True  # it has its own root disk
    stalled: bool = False  # paused, because a volume could not be reached
    cpu_features: list[str] | None = None  # features that it may have; None: all
    cpu: Cpu | None = None  # since its last start
    leaving: bool = False  # paused, because its memory is on another host
    was: int = 0  # the power state before that
    mounts: dict[str, str] = {}  # shown serial number → directory


class Entry(msgspec.Struct, omit_defaults=True):
    """One line of the journal: the complete state of ``uuid``."""

    uuid: str
    disk: bool = False
    seed: bool = False
    guest: FakeGuest | None = None
    firmware: FirmwareState | None = None


@dataclass
class State:
    """The hypervisor's state: uuids with disks, uuids with seeds, domains, and their firmware."""

    disks: set[str] = field(default_factory=set)
    seeds: set[str] = field(default_factory=set)
    guests: dict[str, FakeGuest] = field(default_factory=dict)
    firmware: dict[str, FirmwareState] = field(default_factory=dict)

    def entry(self, uuid: str) -> Entry:
        """Return the journal's line for an instance."""
        return Entry(uuid, uuid in self.disks, uuid in self.seeds, self.guests.get(uuid), self.firmware.get(uuid))

    def apply(self, entry: Entry) -> None:
        """Apply a line of the journal."""
        for there, kept in ((entry.disk, self.disks), (entry.seed, self.seeds)):
            (kept.add if there else kept.discard)(entry.uuid)
        if entry.guest is None:
            self.guests.pop(entry.uuid, None)
        else:
            self.guests[entry.uuid] = entry.guest
        if entry.firmware is None:
            self.firmware.pop(entry.uuid, None)
        else:
            self.firmware[entry.uuid] = entry.firmware


def read_state(journal: bytes) -> State:
    """Return the state in a journal; the last line of each instance applies."""
    state, decoder = State(), msgspec.json.Decoder(Entry)
    for line in journal.split(b"\n"):
        try:
            state.apply(decoder.decode(line))
        except msgspec.DecodeError:
            continue  # the end of the file, or a line truncated by a crash, whose change was not confirmed
    return state


def disk_of(spec: InstanceSpec) -> int:
    """Return the GiB of a guest's local disks."""
    local = spec.flavor.ephemeral_gb if spec.local_disks is None else -(-local_mb(spec) // 1024)
    return local + (spec.flavor.root_gb if boot_volume(spec) is None else 0)


def local_mb(spec: InstanceSpec) -> int:
    """Return the MiB of a guest's empty local disks."""
    if spec.local_disks is None:
        return 1024 * spec.flavor.ephemeral_gb + spec.flavor.swap_mb
    return sum(disk.size_mb for disk in spec.local_disks)


def capacity_of(guests: Sequence[FakeGuest], total: tuple[int, int, int], seconds: float) -> HostCapacity:
    """Return capacity and usage of a host. ``total``: its vCPUs, MiB and GiB. ``seconds``: its uptime."""
    vcpus, memory_mb, disk_gb = total
    running = [guest for guest in guests if guest.power == PowerState.RUNNING]
    return HostCapacity(
        vcpus=vcpus,
        memory_mb=memory_mb,
        disk_gb=disk_gb,
        memory_mb_used=512 + sum(guest.memory_mb for guest in running),
        disk_gb_used=sum(guest.disk_gb for guest in guests),
        vcpus_used=sum(guest.vcpus for guest in guests),
        running_vms=len(running),
        hypervisor_type="fake",
        hypervisor_version=1_000_000,
        cpu_info=PROCESSOR | {"sockets": str(vcpus)},
        uptime=uptime_line(time.localtime(), seconds, (0.0, 0.0, 0.0)),
    )


def console_log(guest: FakeGuest, now: float) -> bytes:
    """Return the guest's console output until ``now``; earlier output never changes."""
    values = msgspec.structs.asdict(guest)
    text: list[str] = []
    for began, ended in guest.boots:
        text += [line.format(**values) + "\r\n" for after, line in _BOOT_LOG if began + after <= (ended or now)]
        if ended:
            text.append("[    9.000000] reboot: Power down\r\n")
    return "".join(text).encode()


def counters_of(guest: FakeGuest, *, config_drive: bool) -> Diagnostics:
    """Return the counters of a guest without any traffic."""
    began = guest.boots[-1][0] if guest.boots and not guest.boots[-1][1] else None
    return Diagnostics(
        power_state=guest.power,
        uptime=time.time() - began if began else None,
        memory_mb=guest.memory_mb,
        hypervisor="fake",
        hypervisor_os="linux",
        config_drive=config_drive,
        cpus=[CpuDiagnostics(id=number, time_ns=0) for number in range(guest.vcpus)],
        nics=[NicDiagnostics(mac_address=mac, rx_octets=0, tx_octets=0) for mac in guest.interfaces],
        disks=[
            *([DiskDiagnostics(read_bytes=0, write_bytes=0, target="vda")] if guest.root else []),
            *(
                DiskDiagnostics(read_bytes=0, write_bytes=0, target=disk.device, volume_id=disk.id)
                for disk in guest.volumes
            ),
        ],
    )


def write_image(target: Path, disk_format: str, size: int) -> None:
    """Write an empty disk of ``size`` bytes to ``target``: ``qcow2`` of version 3, or a sparse ``raw`` file."""
    with target.open("wb") as file:
        if disk_format == "qcow2":
            file.write(qcow2(size))
        else:
            file.truncate(size)


def qcow2(size: int) -> bytes:
    """Return header, refcount table, refcount block and an L1 table without entries, as QEMU creates for an empty
    disk.
    """
    entries = -(-size // (CLUSTER * CLUSTER // 8))
    tables = -(-entries * 8 // CLUSTER)
    header = _HEADER.pack(
        b"QFI\xfb", 3, 0, 0, CLUSTER_BITS, size, 0, entries, 3 * CLUSTER, CLUSTER, 1, 0, 0, 0, 0, 0, 4, _HEADER.size
    )
    clusters = [header, struct.pack(">Q", 2 * CLUSTER), struct.pack(">H", 1) * (3 + tables)]
    return b"".join(cluster.ljust(CLUSTER, b"\0") for cluster in clusters) + bytes(tables * CLUSTER)
