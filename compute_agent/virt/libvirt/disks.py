"""The disks of a guest: a qcow2 overlay on the cached image, and empty disks (by default the flavor's ephemeral and
swap disks).

A guest of a CD image has the overlay in its CD-ROM drive, and an empty root disk.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import InstanceSpec, LocalDisk, boot_volume, is_cd
from compute_agent.virt.errors import FatalBuildError, ImageUnacceptableError, RetryableHostError
from compute_agent.virt.libvirt.paths import InstancePaths
from compute_agent.virt.processes.programs import ProgramError, run_program

GIB = 1 << 30
MIB = 1 << 20
LEAST_FREE = 128 * MIB
"""Free space below which no disks are created: a full file system would stop every guest on it."""


FORMATTERS = {
    "ext2": ("mke2fs", "-q", "-F", "-t", "ext2", "-L"),
    "ext3": ("mke2fs", "-q", "-F", "-t", "ext3", "-L"),
    "ext4": ("mke2fs", "-q", "-F", "-t", "ext4", "-L"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-L"),
    "vfat": ("mkfs.vfat", "-n"),
    "swap": ("mkswap", "-L"),
}
"""File system → the command that creates it on an empty disk. The last arguments, label and file, are omitted."""
USUAL = "ext4"


@dataclass(frozen=True)
class LocalFile:
    """An empty disk of a guest and its file. ``label`` is the label of its file system."""

    disk: LocalDisk
    path: Path
    label: str

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.disk.size_mb * MIB

    @property
    def format(self) -> str:
        """The file system of the disk."""
        return "swap" if self.disk.swap else self.disk.format or USUAL


def local_disks(spec: InstanceSpec, paths: InstancePaths) -> list[LocalFile]:
    """Return the empty disks of a guest: the requested disks, or else the flavor's."""
    if spec.local_disks is None:
        flavor = spec.flavor
        ephemeral = LocalFile(LocalDisk(size_mb=flavor.ephemeral_gb * 1024), paths.ephemeral_disk, "ephemeral0")
        swap = LocalFile(LocalDisk(size_mb=flavor.swap_mb, swap=True), paths.swap_disk, "swap0")
        return [each for each in (ephemeral, swap) if each.size]
    counts, result = {True: 0, False: 0}, []
    for number, disk in enumerate(spec.local_disks):
        label = f"{'swap' if disk.swap else 'ephemeral'}{counts[disk.swap]}"
        counts[disk.swap] += 1
        result.append(LocalFile(disk, paths.local_disk(number), label))
    return result


def format_disk(local: LocalFile, target: Path) -> None:
    """Create the file system of an empty disk in ``target``, which already has its size.

    Raises ProgramError, FatalBuildError for an unsupported file system.
    """
    command = FORMATTERS.get(local.format)
    if command is None:
        raise FatalBuildError(f"No host can create the file system {local.format!r}.")
    run_program(*command, local.label, str(target))


def create_disks(spec: InstanceSpec, base: Path | None, paths: InstancePaths, *, keep_ephemeral: bool = False) -> None:
    """Create the disks of ``spec`` over ``base``, a raw image of the cache. Existing disks are replaced; with
    ``keep_ephemeral`` existing empty disks are kept.

    Without ``base``, or for a guest that boots from a volume, there is no root disk. Raises ImageUnacceptableError if
    the image is larger than the flavor's disk, RetryableHostError if the host lacks space.
    """
    size = 0 if base is None else _root_size(spec, base)
    _check_room(paths)
    try:
        has_root, cd = base is not None and boot_volume(spec) is None, base if is_cd(spec.image) else None
        _replace(paths.root_disk, base if cd is None else None, size if has_root else 0)
        _replace(paths.cd, cd, 0 if cd is None else cd.stat().st_size)
        for local in local_disks(spec, paths):
            if not (keep_ephemeral and local.path.exists()):
                _blank(local.path, local.size)
                format_disk(local, local.path)
    except (OSError, ProgramError) as error:
        raise RetryableHostError("The host could not create the guest's disk.", detail=str(error)) from error


def _root_size(spec: InstanceSpec, base: Path) -> int:
    """Return the bytes of the root disk. Raises ImageUnacceptableError."""
    image_size = base.stat().st_size
    size = spec.flavor.root_gb * GIB or image_size
    if image_size > size:
        needed = math.ceil(image_size / GIB)
        has = f"flavor {spec.flavor.name!r} has {spec.flavor.root_gb} GiB"
        raise ImageUnacceptableError(f"Image {spec.image.name!r} needs a disk of {needed} GiB; {has}.")
    return size


def create_rescue_disk(base: Path, paths: InstancePaths) -> None:
    """Create a disk of the image's own size over ``base``, in the guest's directory, replacing an earlier rescue disk.

    Raises RetryableHostError if the host lacks space.
    """
    _check_room(paths)
    try:
        _overlay(base, paths.rescue_disk, base.stat().st_size)
    except (OSError, ProgramError) as error:
        raise RetryableHostError("The host could not create the rescue disk.", detail=str(error)) from error


def _check_room(paths: InstancePaths) -> None:
    room = os.statvfs(paths.folder)
    if room.f_bavail * room.f_frsize < LEAST_FREE:
        raise RetryableHostError(
            "The host has no space for the guest's disk.", detail=f"under {LEAST_FREE} bytes are free"
        )


def _replace(target: Path, base: Path | None, size: int) -> None:
    """Replace a file by a disk of ``size`` bytes over ``base``, or by an empty disk; remove the file if the size is
    0.
    """
    if size:
        _overlay(base, target, size)
    else:
        target.unlink(missing_ok=True)


def _overlay(base: Path | None, target: Path, size: int) -> None:
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    # -F: the backing format is recorded, so that QEMU never guesses it from data that a guest could have written.
    below = () if base is None else ("-b", str(base), "-F", "raw")
    run_program("qemu-img", "create", "-q", "-f", "qcow2", *below, str(part), str(size))
    part.replace(target)


def _blank(target: Path, size: int) -> None:
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    os.truncate(target, size)
