"""Disks that cloud-init formats and mounts at the first boot of a guest."""

import json
import re
from collections.abc import Mapping, Sequence

from provisioning.common.errors import InvalidInputError
from provisioning.compute.launch.guest_data import check_user_data
from provisioning.compute.launch.multipart import added_part, with_config
from provisioning.compute.launch.request import DiskRequest
from provisioning.compute.models import BlockDevice

FIELD = "mount"
PART = "disks"
"""Name of the part of the user data that mounts disks."""
SHOWN_SERIAL = 20
"""Characters of a serial number that virtio-blk shows to the guest."""
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+", re.ASCII)
_NEEDED = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var"}
)
"""Directories of the root that an image needs; a disk can be mounted below them."""
_SCRIPT = r"""
while [ $# -ge 2 ]; do
    serial=$1 place=$2 disk= tried=0
    shift 2
    grep -q " $place " /etc/fstab && continue
    while [ -z "$disk" ] && [ $tried -lt 60 ]; do
        for link in /dev/disk/by-id/*"$serial"*; do
            case $link in *-part*) continue ;; esac
            [ -e "$link" ] && disk=$(readlink -f "$link") && break
        done
        for each in /sys/block/*/serial; do
            [ -z "$disk" ] && grep -q "^$serial" "$each" 2>/dev/null && disk=/dev/$(basename "$(dirname "$each")")
        done
        [ -n "$disk" ] || sleep 1
        tried=$((tried + 1))
    done
    [ -n "$disk" ] || { echo "The disk $serial for $place was not found." >&2; continue; }
    [ -n "$(blkid "$disk")" ] || mkfs.ext4 -q "$disk" || continue
    uuid=$(blkid -s UUID -o value "$disk")
    [ -n "$uuid" ] || { echo "$disk for $place has no file system." >&2; continue; }
    mkdir -p "$place"
    echo "UUID=$uuid $place auto defaults,nofail 0 2" >>/etc/fstab
    mount "$place"
    command -v restorecon >/dev/null && restorecon "$place"
done
exit 0
"""


def check_mounts(disks: Sequence[DiskRequest]) -> dict[int, str]:
    """Return position → directory of the disks to mount. Raises InvalidInputError for ``mount``."""
    result: dict[int, str] = {}
    for position, disk in enumerate(disks):
        if not disk.mount:
            continue
        path = disk.mount.rstrip("/")
        if problem := directory_problem(path):
            raise _invalid(problem)
        if path in result.values():
            raise _invalid(f"Two disks cannot both be mounted at {path}.")
        if disk.destination_type != "volume" or disk.boot_index == 0:
            raise _invalid("Only volumes other than the root disk can be mounted.")
        result[position] = path
    return result


def directory_problem(path: str) -> str:
    """Return why a disk cannot be mounted at a path; empty if it can."""
    if not _is_directory(path):
        return f"{path[:64]!r} is not a directory such as /srv/data."
    if path.removeprefix("/") in _NEEDED:
        return f"The guest needs its own {path}: choose a directory such as /srv/data."
    return ""


def mounting(user_data: str | None, devices: Sequence[BlockDevice], mounts: Mapping[int, str]) -> str | None:
    """Return a server's user data, in base64, with a script that formats and mounts its disks; unchanged if there are
    no disks to mount.

    A disk is identified by its serial number: the id of its volume. Only a disk without any data is formatted.
    ``mounts`` is position → directory. Raises InvalidInputError if the result is too large.
    """
    mounted = [(device, mounts[device.position]) for device in devices if device.position in mounts]
    if not mounted:
        return user_data
    named = [text for device, path in mounted for text in (str(device.volume_id or device.id)[:SHOWN_SERIAL], path)]
    merged = with_config(user_data, {"bootcmd": [["sh", "-c", _SCRIPT, "mount-disks", *named]]}, PART)
    check_user_data(merged)
    return merged


def mounted_disks(user_data: str | None) -> dict[str, str]:
    """Return serial number → directory of the disks that a server's user data mounts; empty if it mounts none."""
    try:
        arguments = json.loads(added_part(user_data or "", PART).partition("\n")[2])["bootcmd"][0][4:]
        pairs = dict(zip(arguments[::2], arguments[1::2], strict=True))
    except (ValueError, LookupError, TypeError, RecursionError):  # a part of the caller with this name
        return {}
    return {key: path for key, path in pairs.items() if isinstance(path, str) and _is_directory(path)}


def _is_directory(path: str) -> bool:
    return bool(_PATH.fullmatch(path)) and len(path) <= 200 and not {".", ".."} & set(path.split("/"))


def _invalid(sentence: str) -> InvalidInputError:
    return InvalidInputError(sentence, field=FIELD)
