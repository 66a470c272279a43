"""The state of the fake hypervisor: its guests, what it keeps of each instance, and what a guest writes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from compute_agent.contract.build import GuestDisk, InstanceSpec, boot_volume
from compute_agent.contract.calls import CpuDiagnostics, Diagnostics, DiskDiagnostics, NicDiagnostics
from compute_agent.contract.power import PowerState
from compute_agent.virt.driver import HostCapacity
from compute_agent.virt.uptime import uptime_line

PROCESSOR = {
    "arch": "x86_64",
    "model": "novella-fake",
    "vendor": "Novella",
    "features": "fake,pge,clflush",
    "cores": "1",
    "threads": "1",
}

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
"""What a guest writes: seconds after its start, and the line."""


class FakeGuest(msgspec.Struct):
    """One domain of the fake hypervisor.  ``boots`` are pairs of start and end (0: still on), in Unix seconds."""

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
    before: tuple[int, int, int] | None = None  # vCPUs, MiB, GiB that a resize has kept
    interfaces: list[str] = []  # hardware addresses, in order
    volumes: list[GuestDisk] = []
    root: bool = True  # it has a root disk of its own
    stalled: bool = False  # paused, because a volume could not be reached


class Entry(msgspec.Struct, omit_defaults=True):
    """One line of the journal: what ``uuid`` now has."""

    uuid: str
    disk: bool = False
    seed: bool = False
    guest: FakeGuest | None = None


@dataclass
class State:
    """What the hypervisor keeps: uuids with disks, uuids with seeds, and domains."""

    disks: set[str] = field(default_factory=set)
    seeds: set[str] = field(default_factory=set)
    guests: dict[str, FakeGuest] = field(default_factory=dict)

    def entry(self, uuid: str) -> Entry:
        """Return the journal's line for an instance."""
        return Entry(uuid, uuid in self.disks, uuid in self.seeds, self.guests.get(uuid))

    def apply(self, entry: Entry) -> None:
        """Take a line of the journal."""
        for there, kept in ((entry.disk, self.disks), (entry.seed, self.seeds)):
            (kept.add if there else kept.discard)(entry.uuid)
        if entry.guest is None:
            self.guests.pop(entry.uuid, None)
        else:
            self.guests[entry.uuid] = entry.guest


def read_state(journal: bytes) -> State:
    """Return the state that a journal describes; the newest line of each instance counts."""
    state, decoder = State(), msgspec.json.Decoder(Entry)
    for line in journal.split(b"\n"):
        try:
            state.apply(decoder.decode(line))
        except msgspec.DecodeError:
            continue  # the end of the file, or a line cut short by a crash: the change was never answered
    return state


def disk_of(spec: InstanceSpec) -> int:
    """Return the GiB of a guest's disks on its host."""
    local = spec.flavor.ephemeral_gb if spec.local_disks is None else -(-local_mb(spec) // 1024)
    return local + (spec.flavor.root_gb if boot_volume(spec) is None else 0)


def local_mb(spec: InstanceSpec) -> int:
    """Return the MiB of a guest's empty disks on its host."""
    if spec.local_disks is None:
        return 1024 * spec.flavor.ephemeral_gb + spec.flavor.swap_mb
    return sum(disk.size_mb for disk in spec.local_disks)


def capacity_of(guests: Sequence[FakeGuest], total: tuple[int, int, int], seconds: float) -> HostCapacity:
    """Return what a host with ``total`` vCPUs, MiB and GiB has and uses, which is up for so many seconds."""
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
    """Return what the guest has written until ``now``; what was written once never changes."""
    values = msgspec.structs.asdict(guest)
    text: list[str] = []
    for began, ended in guest.boots:
        text += [line.format(**values) + "\r\n" for after, line in _BOOT_LOG if began + after <= (ended or now)]
        if ended:
            text.append("[    9.000000] reboot: Power down\r\n")
    return "".join(text).encode()


def counters_of(guest: FakeGuest, *, config_drive: bool) -> Diagnostics:
    """Return what a hypervisor would count of a guest: nothing has been read, written or sent."""
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
