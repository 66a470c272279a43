"""Unmanaged disks in a pool of files: they are listed, become volumes, and are created from volumes.

They are the files of the pool's folder ``unmanaged/``. Links are not followed, and no path can be outside the folder.
To manage a file, the volume's folder gets a hard link to it. The original name is removed after the volume's state
names the file, so an interruption at any moment loses no data.
"""

import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from compute_agent.contract.volume import UnmanagedDisk
from compute_agent.disk_formats import qcow2
from compute_agent.disk_formats.reading import DiskFormatError, read_at
from compute_agent.virt.errors import HostError
from compute_agent.volumes.errors import PoolUnavailableError, VolumeNotFoundError

NAME = "unmanaged"
PART = ".part"
FEATURES = struct.Struct(">Q")
CORRUPT, DATA_ELSEWHERE = 1 << 1, 1 << 2
"""Bits of a qcow2 file's incompatible features."""


class UnmanageableError(HostError):
    """The disk cannot be managed."""

    code = "unmanageable"


class UnmanagedDisks:
    """The folder of a pool with the unmanaged disks."""

    def __init__(self, pool: Path) -> None:
        self.folder = pool / NAME

    def listed(self) -> list[UnmanagedDisk]:
        """Return every file with a printable name, with the reason if it cannot be managed."""
        try:
            names = sorted(path.name for path in self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise PoolUnavailableError("The pool's folder cannot be read.", detail=str(error)) from error
        return [self._described(name) for name in names if name.isprintable() and not name.endswith(PART)]

    def _described(self, name: str) -> UnmanagedDisk:
        try:
            _, size = self.look(name)
        except HostError as error:
            return UnmanagedDisk(name=name, reason=error.message)
        return UnmanagedDisk(name=name, size=size)

    def look(self, name: str) -> tuple[str, int]:
        """Return the format of a disk, ``raw`` or ``qcow2``, and its size in bytes.

        Raises VolumeNotFoundError, UnmanageableError.
        """
        if not name or name in {".", ".."} or "/" in name or "\0" in name:
            raise UnmanageableError("The name of a disk must be the name of its file.")
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise VolumeNotFoundError("disk") from error
        except OSError as error:
            raise UnmanageableError("It is not a readable file.", detail=str(error)) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise UnmanageableError("It is not a regular file.")
        with os.fdopen(descriptor, "rb") as file:
            if status.st_nlink > 1:
                raise UnmanageableError("The file has a second hard link, so another program may use it.")
            try:
                result = _read(file, status.st_size)
            except DiskFormatError as error:
                raise UnmanageableError(f"The file {error}.") from error
        if not result[1]:
            raise UnmanageableError("The file is empty.")
        return result

    def link(self, name: str, target: Path) -> None:
        """Create ``target`` as a hard link to a file."""
        target.unlink(missing_ok=True)
        try:
            os.link(self.folder / name, target, follow_symlinks=False)
        except OSError as error:
            raise PoolUnavailableError("The pool could not manage the file.", detail=str(error)) from error

    def forget(self, name: str, target: Path) -> None:
        """Remove the original name of a managed file, if it still refers to that file."""
        try:
            if (self.folder / name).lstat().st_ino == target.stat().st_ino:
                (self.folder / name).unlink()
        except FileNotFoundError:
            return

    def put(self, name: str, write: Callable[[Path], None]) -> None:
        """Create a disk in one step. ``write`` writes it to the path that it is called with."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        part = self.folder / f"{name}{PART}"
        part.unlink(missing_ok=True)
        try:
            write(part)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(self.folder / name)
        finally:
            part.unlink(missing_ok=True)


def _read(file: BinaryIO, size: int) -> tuple[str, int]:
    if file.read(len(qcow2.MAGIC)) != qcow2.MAGIC:
        return "raw", size
    file.seek(0)
    if qcow2.backing_file(file):
        raise UnmanageableError("It has a backing file.")
    if struct.unpack(">I", read_at(file, 4, 4))[0] > 2:
        _check_features(*FEATURES.unpack(read_at(file, 72, FEATURES.size)))
    return "qcow2", qcow2.check(file, size)


def _check_features(features: int) -> None:
    if features & DATA_ELSEWHERE:
        raise UnmanageableError("Its data is in another file.")
    if features & CORRUPT:
        raise UnmanageableError("It is marked as damaged.")
