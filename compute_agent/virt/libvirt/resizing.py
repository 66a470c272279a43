"""The disks of a guest that is resized: those of before lie aside until the new size is kept or given up.

The root disk of before becomes the backing file of a fresh overlay, so nothing is copied while the guest is off, and
going back is one rename.  Keeping the new size writes what is under the overlay into it, while the guest goes on, and
then removes the file.  Every step may be cut off and done again: a disk that lies aside is whole, and the one in its
place appears by a rename.
"""

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import libvirt

from compute_agent.contract.build import InstanceSpec, boot_volume
from compute_agent.virt import progress
from compute_agent.virt.errors import ImageUnacceptableError, InstanceNotFoundError, RetryableHostError
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.disks import GIB, LEAST_FREE, LocalFile, format_disk, local_disks
from compute_agent.virt.libvirt.domains import Domains
from compute_agent.virt.libvirt.paths import InstancePaths
from compute_agent.virt.programs import Limits, ProgramError, run_long, run_program
from compute_agent.virt.rights import Rights

log = logging.getLogger(__name__)

LONG = Limits(seconds=24 * 3600, cpu_seconds=4 * 3600, memory=2 << 30)
LOOK_FIRST, LOOK_LAST = 0.02, 0.5
"""Seconds until the first look at a disk that is being written together, and between later ones."""
ROUNDS = 5
"""How often it is begun anew, when the guest goes on or off meanwhile."""
_NOT_MADE = "The host could not make the guest's larger disk."
_NOT_KEPT = "The guest's disk could not be written together yet."


def aside(disk: Path) -> Path:
    """Return where the disk of before lies."""
    return disk.with_name(f"{disk.name}.before")


def enlarge(spec: InstanceSpec, paths: InstancePaths) -> None:
    """Give a guest that is off the disks of ``spec.flavor`` and put those of before aside.

    Raises InstanceNotFoundError for a guest without a disk, ImageUnacceptableError when its disk would shrink,
    RetryableHostError without room; what was put aside then is brought back by ``restore``.
    """
    own_root = boot_volume(spec) is None
    try:
        _check_room(paths, own_root=own_root)
        if own_root:
            _overlay(paths.root_disk, spec.flavor.root_gb * GIB)
        wanted = {local.path: local for local in local_disks(spec, paths)}
        for path in _empty_disks(paths) | wanted.keys():
            _extra(path, wanted.get(path))
    except (OSError, ProgramError) as error:
        raise RetryableHostError(_NOT_MADE, detail=str(error)) from error


def restore(spec: InstanceSpec, paths: InstancePaths) -> None:
    """Bring back the disks of before to a guest that is off; ``spec.flavor`` is its size then.  Nothing when none lies
    aside.
    """
    wanted = {local.path for local in local_disks(spec, paths)}
    try:
        for disk in _empty_disks(paths):
            if aside(disk).exists():
                aside(disk).replace(disk)
            elif disk not in wanted:
                disk.unlink(missing_ok=True)
        if aside(paths.root_disk).exists():
            aside(paths.root_disk).replace(paths.root_disk)
    except OSError as error:
        raise RetryableHostError("The host could not bring back the guest's disk.", detail=str(error)) from error


def keep(domain: Any | None, paths: InstancePaths) -> None:
    """Remove the disks of before, whether the guest is on or off.  Raises RetryableHostError when it must be tried
    again; nothing is lost then.
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
        raise RetryableHostError("The host has no room for a larger disk.", detail=f"under {LEAST_FREE} bytes are free")


def _free(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def _overlay(disk: Path, size: int) -> None:
    """Put an overlay of ``size`` bytes (0: as large as it is) in the disk's place and the disk under it."""
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
    # -F: the format under it is written down, so QEMU never guesses it from bits that a guest could have made.
    run_program(
        "qemu-img", "create", "-q", "-f", "qcow2", "-b", str(before), "-F", "qcow2", str(part), str(max(size, has))
    )
    part.replace(disk)


def _info(disk: Path) -> dict[str, Any]:
    words = ("qemu-img", "info", "-U", "-f", "qcow2", "--output=json", str(disk))
    info: dict[str, Any] = json.loads(run_program(*words, rights=Rights()))
    return info


def _write_together(domain: Any | None, disk: Path, before: Path) -> None:
    """Write what lies in ``before`` into ``disk``, until that does not need it any more."""
    info = _info(before)
    under, needed = info.get("full-backing-filename"), int(info["actual-size"]) + LEAST_FREE
    for _ in range(ROUNDS):
        if _info(disk).get("full-backing-filename") != str(before):
            return
        if _free(disk.parent) < needed:
            raise RetryableHostError("The host has no room to write the disk together.", detail=f"{needed} bytes")
        with translated("write the guest's disk together"):
            if domain is not None and domain.isActive():
                _by_qemu(domain, disk, under)
                continue
        where = ["-b", under, "-F", "raw"] if under else ["-b", ""]
        words = ("qemu-img", "rebase", "-q", "-f", "qcow2", *where, str(disk))
        run_long(*words, limits=LONG, stopped=lambda: False, rights=Rights())
    raise RetryableHostError(_NOT_KEPT, detail=f"{disk} still lies on {before}")


def _by_qemu(domain: Any, disk: Path, under: str | None) -> None:
    """Let QEMU do it while the guest goes on; when the guest goes off meanwhile, it is not done."""
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
        log.info("A guest went off while its disk was written together: %s", error)


# --- empty disks ------------------------------------------------------------------------------------------------------


def _empty_disks(paths: InstancePaths) -> set[Path]:
    """Return the places of the empty disks that are there, or lie aside, and those of a flavor."""
    asked = {path.with_name(path.name.removesuffix(aside(path).suffix)) for path in paths.folder.glob("local-*.before")}
    return {paths.ephemeral_disk, paths.swap_disk, *paths.local_files, *asked}


def _extra(disk: Path, wanted: LocalFile | None) -> None:
    """Give one disk beside the root disk its new size, None: it goes; the one of before, if any, is put aside."""
    before, size = aside(disk), wanted.size if wanted else 0
    if not before.exists():
        has = disk.stat().st_size if disk.exists() else 0
        if has == size:
            return
        if has:
            disk.rename(before)
    if wanted and not disk.exists():
        part = disk.with_suffix(".part")
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        _make(part, before, wanted)
        part.replace(disk)


def _make(part: Path, before: Path, wanted: LocalFile) -> None:
    """Make a new disk; one with files is the copy of the one before, and its file system is the guest's to grow."""
    if before.exists() and not wanted.disk.swap:
        run_long("cp", "--sparse=always", "--reflink=auto", str(before), str(part), limits=LONG, stopped=lambda: False)
        os.truncate(part, wanted.size)
        return
    os.truncate(part, wanted.size)
    format_disk(wanted, part)


class ResizeOperations(Domains):
    """Giving a guest another size, and keeping or giving up that."""

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
