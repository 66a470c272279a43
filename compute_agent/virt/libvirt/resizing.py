"""Disks of a resized guest. The previous disks are kept until the resize is confirmed or reverted.

The previous root disk becomes the backing file of a new overlay, so that nothing is copied while the guest is off, and
a revert is one rename. A confirmation merges the backing file into the overlay while the guest runs, and then deletes
the backing file. Every step is idempotent: a kept disk is always complete, and its replacement appears by a rename.
"""

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import libvirt

from compute_agent.contract.build import InstanceSpec, boot_volume
from compute_agent.virt.errors import ImageUnacceptableError, InstanceNotFoundError, RetryableHostError
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.disks import GIB, LEAST_FREE, LocalFile, format_disk, local_disks
from compute_agent.virt.libvirt.domains import Domains
from compute_agent.virt.libvirt.paths import InstancePaths
from compute_agent.virt.processes import progress
from compute_agent.virt.processes.programs import Limits, ProgramError, run_long, run_program
from compute_agent.virt.processes.rights import Rights

log = logging.getLogger(__name__)

LONG = Limits(seconds=24 * 3600, cpu_seconds=4 * 3600, memory=2 << 30)
LOOK_FIRST, LOOK_LAST = 0.02, 0.5
"""Seconds until the first progress check of a merge, and between later checks."""
ROUNDS = 5
"""Maximum retries if the guest starts or stops in the meantime."""
_NOT_MADE = "The host could not create the guest's larger disk."
_NOT_KEPT = "The guest's disk could not be merged yet."


def aside(disk: Path) -> Path:
    """Return the path under which the previous version of a disk is kept."""
    return disk.with_name(f"{disk.name}.before")


def enlarge(spec: InstanceSpec, paths: InstancePaths) -> None:
    """Give a stopped guest the disks of ``spec.flavor``, and keep the previous disks.

    Raises InstanceNotFoundError for a guest without a disk, ImageUnacceptableError if its disk would shrink,
    RetryableHostError if the host lacks space. ``restore`` then restores the previous disks.
    """
    own_root = boot_volume(spec) is None
    try:
        _check_room(paths, own_root=own_root)
        if own_root:
            _overlay(paths.root_disk, spec.flavor.root_gb * GIB)
        expected = {local.path: local for local in local_disks(spec, paths)}
        for path in _empty_disks(paths) | expected.keys():
            _extra(path, expected.get(path))
    except (OSError, ProgramError) as error:
        raise RetryableHostError(_NOT_MADE, detail=str(error)) from error


def restore(spec: InstanceSpec, paths: InstancePaths) -> None:
    """Restore the previous disks of a stopped guest, with the size of ``spec.flavor``. No effect if there are none."""
    expected = {local.path for local in local_disks(spec, paths)}
    try:
        for disk in _empty_disks(paths):
            if aside(disk).exists():
                aside(disk).replace(disk)
            elif disk not in expected:
                disk.unlink(missing_ok=True)
        if aside(paths.root_disk).exists():
            aside(paths.root_disk).replace(paths.root_disk)
    except OSError as error:
        raise RetryableHostError("The host could not restore the guest's disk.", detail=str(error)) from error


def keep(domain: Any | None, paths: InstancePaths) -> None:
    """Remove the previous disks of a running or stopped guest, merging the root disk's data first.

    Raises RetryableHostError if it must be retried; no data is lost then.
    """
    try:
        for disk in _empty_disks(paths):
            aside(disk).unlink(missing_ok=True)
        before = aside(paths.root_disk)
        if before.exists():
            _write_together(domain, paths.root_disk, before)
            before.unlink()
    except (OSError, ProgramError) as error:
        raise RetryableHostError(_NOT_KEPT, detail=str(error)) from error


# --- the root disk ----------------------------------------------------------------------------------------------------


def _check_room(paths: InstancePaths, *, own_root: bool) -> None:
    if not (paths.root_disk.exists() or aside(paths.root_disk).exists() if own_root else paths.folder.exists()):
        raise InstanceNotFoundError("The guest has no disk to be resized.")
    if _free(paths.folder) < LEAST_FREE:
        raise RetryableHostError(
            "The host has no space for a larger disk.", detail=f"under {LEAST_FREE} bytes are free"
        )


def _free(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def _overlay(disk: Path, size: int) -> None:
    """Replace the disk by an overlay of ``size`` bytes (0: the size of the disk), whose backing file is the disk."""
    before = aside(disk)
    has = int(_info(before if before.exists() else disk)["virtual-size"])
    if 0 < size < has:
        raise ImageUnacceptableError(f"The guest's disk has {-(-has // GIB)} GiB and cannot shrink.")
    if not before.exists():
        disk.rename(before)
    if disk.exists():
        return
    part = disk.with_suffix(".part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    # -F: the backing format is recorded, so that QEMU never guesses it from data that a guest could have written.
    run_program(
        "qemu-img", "create", "-q", "-f", "qcow2", "-b", str(before), "-F", "qcow2", str(part), str(max(size, has))
    )
    part.replace(disk)


def _info(disk: Path) -> dict[str, Any]:
    words = ("qemu-img", "info", "-U", "-f", "qcow2", "--output=json", str(disk))
    info: dict[str, Any] = json.loads(run_program(*words, rights=Rights()))
    return info


def _write_together(domain: Any | None, disk: Path, before: Path) -> None:
    """Merge ``before`` into ``disk``, until ``disk`` no longer depends on it."""
    info = _info(before)
    under, needed = info.get("full-backing-filename"), int(info["actual-size"]) + LEAST_FREE
    for _ in range(ROUNDS):
        if _info(disk).get("full-backing-filename") != str(before):
            return
        if _free(disk.parent) < needed:
            raise RetryableHostError("The host has no space to merge the disk.", detail=f"{needed} bytes")
        with translated("merge the guest's disk"):
            if domain is not None and domain.isActive():
                _by_qemu(domain, disk, under)
                continue
        where = ["-b", under, "-F", "raw"] if under else ["-b", ""]
        words = ("qemu-img", "rebase", "-q", "-f", "qcow2", *where, str(disk))
        run_long(*words, limits=LONG, stopped=lambda: False, rights=Rights())
    raise RetryableHostError(_NOT_KEPT, detail=f"{disk} still depends on {before}")


def _by_qemu(domain: Any, disk: Path, under: str | None) -> None:
    """Let QEMU merge the disks while the guest runs. If the guest stops, the merge stays incomplete."""
    try:
        if not domain.blockJobInfo(str(disk)):
            domain.blockRebase(str(disk), under, 0, 0)
        pause, watched = LOOK_FIRST, progress.Watched()
        while job := domain.blockJobInfo(str(disk)):
            watched.look(job.get("cur"))
            time.sleep(pause)
            pause = min(2 * pause, LOOK_LAST)
    except libvirt.libvirtError as error:
        if domain.isActive():
            raise
        log.info("A guest stopped while its disk was merged: %s", error)


# --- empty disks ------------------------------------------------------------------------------------------------------


def _empty_disks(paths: InstancePaths) -> set[Path]:
    """Return the paths of requested empty disks, existing or kept, and of the flavor's empty disks."""
    expected = {
        path.with_name(path.name.removesuffix(aside(path).suffix)) for path in paths.folder.glob("local-*.before")
    }
    return {paths.ephemeral_disk, paths.swap_disk, *paths.local_files, *expected}


def _extra(disk: Path, local: LocalFile | None) -> None:
    """Replace an ephemeral or swap disk by one of the requested size, or remove it if ``local`` is None.

    The old file is renamed and kept for a revert.
    """
    before, size = aside(disk), local.size if local else 0
    if not before.exists():
        has = disk.stat().st_size if disk.exists() else 0
        if has == size:
            return
        if has:
            disk.rename(before)
    if local and not disk.exists():
        part = disk.with_suffix(".part")
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        _make(part, before, local)
        part.replace(disk)


def _make(part: Path, before: Path, local: LocalFile) -> None:
    """Create a new disk. A disk with a file system is a copy of the previous disk, whose file system the guest can
    extend.
    """
    if before.exists() and not local.disk.swap:
        run_long("cp", "--sparse=always", "--reflink=auto", str(before), str(part), limits=LONG, stopped=lambda: False)
        os.truncate(part, local.size)
        return
    os.truncate(part, local.size)
    format_disk(local, part)


class ResizeOperations(Domains):
    """Resize of a guest, confirmation and revert."""

    def resize(self, spec: InstanceSpec, attempt: int) -> None:
        self._power_off(spec.uuid)
        enlarge(spec, self._folder(spec.uuid))
        self._redefine(spec, attempt)

    def confirm_resize(self, uuid: str) -> None:
        keep(self._find(uuid), self._paths.instance(uuid))

    def revert_resize(self, spec: InstanceSpec, attempt: int) -> None:
        self._power_off(spec.uuid)
        restore(spec, self._folder(spec.uuid))
        self._redefine(spec, attempt)
