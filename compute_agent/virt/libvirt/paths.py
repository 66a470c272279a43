"""Paths of the libvirt driver, with short names that the guests' account can reach.

Paths of Unix sockets have at most 107 bytes, and the state directory may be below a directory that only root can enter.
Therefore files for QEMU have names below ``/run/novella-…``. Each directory is mounted there in the agent's own mount
namespace, which QEMU inherits; if guests run as root, it is a symbolic link.
"""

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from compute_agent.virt.libvirt.account import ROOT, Account
from compute_agent.virt.libvirt.firmware import kind_of

RUN = Path("/run")
BASES = "images/_base"
PKI = "pki"
"""The host's certificates: QEMU uses those of the client; only root can read the server's key."""
EXPORTS = "exports"
"""Directory with only the sockets of the daemons that export volumes to guests of this host."""
VISIBLE = ("instances", "images", "outgoing", "libvirt", PKI, EXPORTS)
"""Directories of the state that QEMU uses; the others contain secrets of the host."""
READ = frozenset({"seed.iso", "rescue.iso", "kernel", "ramdisk", "rescue.kernel", "rescue.ramdisk"})
"""Files of a guest that QEMU only reads; kernels and ramdisks may be hard links to files of the image cache."""
SOCKETS = "sockets"


@dataclass(frozen=True)
class InstancePaths:
    """The files of one guest. ``folder`` is their directory as QEMU sees it, ``real`` the same directory in
    the state.
    """

    folder: Path
    real: Path
    account: Account = ROOT

    @property
    def root_disk(self) -> Path:
        """The qcow2 overlay on the cached image."""
        return self.folder / "disk.qcow2"

    @property
    def cd(self) -> Path:
        """The CD-ROM image of a guest created from a CD: a qcow2 overlay on the cached image.

        The guest cannot write to it. The overlay exists because it records which cached image the guest needs.
        """
        return self.folder / "cd.qcow2"

    @property
    def ephemeral_disk(self) -> Path:
        """The flavor's ephemeral disk, raw, ext4."""
        return self.folder / "ephemeral.raw"

    @property
    def swap_disk(self) -> Path:
        """The swap disk, raw."""
        return self.folder / "swap.raw"

    def local_disk(self, number: int) -> Path:
        """Return the path of a requested empty disk, raw."""
        return self.folder / f"local-{number}.raw"

    @property
    def local_files(self) -> list[Path]:
        """The existing requested empty disks."""
        return sorted(self.folder.glob("local-*.raw"))

    @property
    def seed(self) -> Path:
        return self.folder / "seed.iso"

    @property
    def kernel(self) -> Path:
        """The kernel that the guest boots instead of its disk."""
        return self.folder / "kernel"

    @property
    def ramdisk(self) -> Path:
        """The ramdisk of the kernel."""
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
        """The ramdisk of that kernel."""
        return self.folder / "rescue.ramdisk"

    def variables(self, *, secure_boot: bool, rescue: bool) -> Path:
        """Return the path of the guest's UEFI variables. A rescue uses a separate file."""
        return self.folder / f"{'rescue.' if rescue else ''}{kind_of(secure_boot=secure_boot)}.vars"

    @property
    def tpm(self) -> Path:
        """The folder of the state of the guest's TPM."""
        return self.folder / "tpm"

    @property
    def tpm_socket(self) -> Path:
        return self.folder / SOCKETS / "tpm.sock"

    @property
    def console_log(self) -> Path:
        """The output of the guest's serial port."""
        return self.folder / "console.log"

    def serial_socket(self, number: int = 0) -> Path:
        """Return the socket of a serial port, for one client at a time. Port 0 is the console."""
        return self.folder / SOCKETS / (f"serial-{number}.sock" if number else "serial.sock")

    @property
    def agent_socket(self) -> Path:
        """The channel to the guest agent; libvirt's default path is too long for most directories."""
        return self.folder / SOCKETS / "agent.sock"

    @property
    def vnc_socket(self) -> Path:
        return self.folder / SOCKETS / "vnc.sock"

    def hand_over(self) -> None:
        """Give the account the files that its QEMU writes, and read access to the others. Call it before each start.

        The directory is owned by root, so that only root can replace a file that the agent opens.
        """
        sockets = self.folder / SOCKETS
        sockets.mkdir(mode=0o700, exist_ok=True)
        self.console_log.touch(mode=0o600)
        self.account.show(self.folder, 0o710)
        self.account.change_owner(sockets, 0o700)
        for path in self.folder.iterdir():
            if path.name in READ:
                self.account.show(path, 0o440)
            elif path.is_file():
                self.account.change_owner(path, 0o600)


@dataclass(frozen=True)
class HostPaths:
    """The directories of one agent."""

    state: Path
    account: Account = ROOT

    @property
    def short(self) -> Path:
        """The short path of the state directory."""
        return RUN / f"novella-{hashlib.sha256(str(self.state).encode()).hexdigest()[:8]}"

    @property
    def mounted(self) -> bool:
        """Whether QEMU's directories are mounted at their short paths, for this process and its children."""
        return all(
            not (self.short / name).is_symlink()
            and (self.short / name).exists()
            and (self.short / name).samefile(self.state / name)
            for name in VISIBLE
        )

    @property
    def libvirt_root(self) -> Path:
        """The root of the embedded driver."""
        return self.short / "libvirt"

    def emulator_log(self, domain: str) -> Path:
        """Return the embedded driver's log of a domain."""
        return self.libvirt_root / "log" / "qemu" / f"{domain}.log"

    @property
    def certificates(self) -> Path:
        """The directory of the certificates for volumes of other hosts, as QEMU sees it."""
        return self.short / PKI

    @property
    def exports(self) -> Path:
        """The directory of the sockets of storage daemons, as the daemons and QEMU see it."""
        return self.short / EXPORTS

    @property
    def instances(self) -> Path:
        """The directory with one folder for each guest."""
        return self.state / "instances"

    @property
    def tpm_keys(self) -> Path:
        """Passphrases of guests' TPMs, in a directory that only root can enter."""
        return self.state / "tpm-keys"

    def tpm_key(self, uuid: str) -> Path:
        return self.tpm_keys / str(UUID(uuid))

    @property
    def covers(self) -> Path:
        """Files that libvirt sees in place of files of the machine (see ``private_mounts``)."""
        return self.state / "covers"

    def instance(self, uuid: str) -> InstancePaths:
        """Return the files of the guest ``uuid``. Raises ValueError for an invalid UUID."""
        name = str(UUID(uuid))
        return InstancePaths(self.short / "instances" / name, self.instances / name, self.account)

    def visible(self, path: Path) -> Path:
        """Return QEMU's path of a file in the state directory; other paths are unchanged."""
        path = path.absolute()
        return self.short / path.relative_to(self.state) if path.is_relative_to(self.state) else path

    def lend(self, image: Path) -> Path:
        """Give the account read access to a cached image. Return the image's path as QEMU sees it."""
        self.account.show(image, 0o440)
        return self.visible(image)

    def prepare(self) -> None:
        """Create the directories and their short paths; existing mounts are kept."""
        self._make_folders()
        if self.mounted:
            return
        self._make_short()
        for name in VISIBLE:
            link = self.short / name
            if not (link.is_symlink() and link.readlink() == self.state / name):
                self._clear(link)
                link.symlink_to(self.state / name)

    def mount_points(self) -> list[tuple[Path, Path]]:
        """Create the directories, and their mount points below the short path. Return each directory with its mount
        point.

        An existing mount point is kept, because guests of an earlier agent have the directory mounted there.
        """
        self._make_folders()
        self._make_short()
        places = [(self.state / name, self.short / name) for name in VISIBLE]
        for _, place in places:
            if place.is_symlink():
                place.unlink()
            place.mkdir(mode=0o755, exist_ok=True)
        return places

    def _make_folders(self) -> None:
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in (*VISIBLE, BASES):
            folder = self.state / name
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.account.show(folder, 0o710)

    def _make_short(self) -> None:
        """Create the directory of the short paths, which other accounts may enter but not change."""
        if self.short.is_symlink():
            self.short.unlink()
        self.short.mkdir(mode=0o755, exist_ok=True)
        self.short.chmod(0o755)

    def remove_short(self) -> None:
        """Remove the short paths. Their targets and other files in the same directory are kept."""
        with contextlib.suppress(OSError):
            for name in VISIBLE:
                self._clear(self.short / name)
            if self.short.is_dir():
                self.short.rmdir()

    @staticmethod
    def _clear(link: Path) -> None:
        if link.is_symlink():
            link.unlink()
        elif link.exists():
            link.rmdir()
