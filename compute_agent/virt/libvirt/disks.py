"""The disks of a guest: a qcow2 overlay on the cached image, and the flavor's ephemeral and swap disks."""

import math
import os
from pathlib import Path

from compute_agent.contract.build import InstanceSpec
from compute_agent.virt.errors import ImageUnacceptableError, RetryableHostError
from compute_agent.virt.libvirt.paths import InstancePaths
from compute_agent.virt.programs import ProgramError, run_program

GIB = 1 << 30
MIB = 1 << 20
LEAST_FREE = 128 * MIB
"""Below this the host makes no new disks: a full file system stops every guest on it."""


def create_disks(spec: InstanceSpec, base: Path, paths: InstancePaths, *, keep_ephemeral: bool = False) -> None:
    """Make the disks of ``spec`` over ``base``, a raw image of the cache; what is there is replaced, but with
    ``keep_ephemeral`` for the ephemeral and swap disks.

    Raises ImageUnacceptableError when the image is larger than the flavor's disk, RetryableHostError when the host has
    no room.
    """
    image_size = base.stat().st_size
    size = spec.flavor.root_gb * GIB or image_size
    if image_size > size:
        needed = math.ceil(image_size / GIB)
        has = f"flavor {spec.flavor.name!r} has {spec.flavor.root_gb} GiB"
        raise ImageUnacceptableError(f"Image {spec.image.name!r} needs a disk of {needed} GiB; {has}.")
    _check_room(paths)
    try:
        _overlay(base, paths.root_disk, size)
        if spec.flavor.ephemeral_gb and not (keep_ephemeral and paths.ephemeral_disk.exists()):
            _blank(paths.ephemeral_disk, spec.flavor.ephemeral_gb * GIB)
            run_program("mke2fs", "-q", "-F", "-t", "ext4", "-L", "ephemeral0", str(paths.ephemeral_disk))
        if spec.flavor.swap_mb and not (keep_ephemeral and paths.swap_disk.exists()):
            _blank(paths.swap_disk, spec.flavor.swap_mb * MIB)
            run_program("mkswap", "-L", "swap0", str(paths.swap_disk))
    except (OSError, ProgramError) as error:
        raise RetryableHostError("The host could not make the guest's disk.", detail=str(error)) from error


def create_rescue_disk(base: Path, paths: InstancePaths) -> None:
    """Make a disk of the image's own size over ``base``, beside those of the guest; an earlier one is replaced.

    Raises RetryableHostError when the host has no room.
    """
    _check_room(paths)
    try:
        _overlay(base, paths.rescue_disk, base.stat().st_size)
    except (OSError, ProgramError) as error:
        raise RetryableHostError("The host could not make the rescue disk.", detail=str(error)) from error


def _check_room(paths: InstancePaths) -> None:
    room = os.statvfs(paths.folder)
    if room.f_bavail * room.f_frsize < LEAST_FREE:
        raise RetryableHostError(
            "The host has no room for the guest's disk.", detail=f"under {LEAST_FREE} bytes are free"
        )


def _overlay(base: Path, target: Path, size: int) -> None:
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    # -F: the format of the backing file is written down, so QEMU never guesses it from bits a guest could have made.
    run_program("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "raw", str(part), str(size))
    part.replace(target)


def _blank(target: Path, size: int) -> None:
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    os.truncate(target, size)
