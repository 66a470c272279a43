"""Where the libvirt driver keeps things, with short names for unix sockets, which the kernel limits to 107 bytes."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

RUN = Path("/run")
LONGEST = 44
"""libvirt and QEMU append up to 60 bytes to the state folder for their sockets; the limit is 107."""


@dataclass(frozen=True)
class InstancePaths:
    """The files of one guest: ``folder`` under its real path, ``short`` the same folder under a short name."""

    folder: Path
    short: Path

    @property
    def root_disk(self) -> Path:
        """The qcow2 overlay on the cached image."""
        return self.folder / "disk.qcow2"

    @property
    def ephemeral_disk(self) -> Path:
        """The second disk, raw, ext4."""
        return self.folder / "ephemeral.raw"

    @property
    def swap_disk(self) -> Path:
        """The swap disk, raw."""
        return self.folder / "swap.raw"

    @property
    def seed(self) -> Path:
        return self.folder / "seed.iso"

    @property
    def kernel(self) -> Path:
        """The kernel that the guest boots instead of its disk."""
        return self.folder / "kernel"

    @property
    def ramdisk(self) -> Path:
        """The ramdisk that goes with the kernel."""
        return self.folder / "ramdisk"

    @property
    def rescue_disk(self) -> Path:
        """The disk of a rescued guest, a qcow2 overlay on the rescue image."""
        return self.folder / "rescue.qcow2"

    @property
    def rescue_seed(self) -> Path:
        """The config drive of a rescued guest."""
        return self.folder / "rescue.iso"

    @property
    def rescue_kernel(self) -> Path:
        """The kernel that a rescued guest boots."""
        return self.folder / "rescue.kernel"

    @property
    def rescue_ramdisk(self) -> Path:
        """The ramdisk that goes with that kernel."""
        return self.folder / "rescue.ramdisk"

    @property
    def console_log(self) -> Path:
        """What the guest wrote to its serial port."""
        return self.folder / "console.log"

    @property
    def serial_socket(self) -> Path:
        """The serial port itself; one client at a time."""
        return self.short / "serial.sock"

    @property
    def agent_socket(self) -> Path:
        """The channel to the agent in the guest; the name that libvirt would choose is too long for most folders."""
        return self.short / "agent.sock"

    @property
    def vnc_socket(self) -> Path:
        return self.short / "vnc.sock"


@dataclass(frozen=True)
class HostPaths:
    """The folders of one agent."""

    state: Path

    @property
    def link(self) -> Path:
        """The short name that stands for a long state folder."""
        return RUN / f"novella-{hashlib.sha256(str(self.state).encode()).hexdigest()[:8]}"

    @property
    def short(self) -> Path:
        """The state folder, by its short name when its own is too long."""
        return self.state if len(os.fsencode(self.state)) <= LONGEST else self.link

    @property
    def libvirt_root(self) -> Path:
        """The root of the embedded driver."""
        return self.short / "libvirt"

    def emulator_log(self, domain: str) -> Path:
        """Return where the embedded driver logs how it started a domain."""
        return self.libvirt_root / "log" / "qemu" / f"{domain}.log"

    @property
    def instances(self) -> Path:
        """One folder for each guest."""
        return self.state / "instances"

    @property
    def covers(self) -> Path:
        """What is shown to libvirt in place of files of the machine (see ``private_mounts``)."""
        return self.state / "covers"

    def instance(self, uuid: str) -> InstancePaths:
        """Return the files of the guest ``uuid``; raises ValueError for what is not a UUID."""
        name = str(UUID(uuid))
        return InstancePaths(folder=self.instances / name, short=self.short / "instances" / name)

    def prepare(self) -> None:
        """Make the folders and, where one is needed, the short name."""
        for folder in (self.state, self.instances):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.short != self.state and not (self.link.is_symlink() and self.link.readlink() == self.state):
            self.link.unlink(missing_ok=True)
            self.link.symlink_to(self.state)
