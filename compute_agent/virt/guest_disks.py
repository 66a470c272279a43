"""Disks in a running guest: the part of the driver that works through the guest agent, and the program of the guest."""

import abc
import re

from compute_agent.contract.guest_disks import DIRECTORY, LONGEST_DIRECTORY, SHOWN_SERIAL, Content, InspectedDisk
from compute_agent.virt.errors import GuestDiskError

_SERIAL = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_DIRECTORY = re.compile(DIRECTORY, re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
LONGEST = 255
"""Maximum length of a text from the guest."""
FAILURES = {
    20: "The guest does not have the disk.",
    21: "The disk has data that is not a file system, so it was not changed.",
    22: "The disk or the directory is already in use in the guest.",
    23: "The guest has no program for this.",
    24: "The guest could not examine the disk, so it was not changed.",
}
"""Exit status of the program → error message."""

PROGRAM = r"""
root=$1 verb=$2 serial=$3 directory=$4
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
fail() { status=$1; shift; echo "$*" >&2; exit "$status"; }
needs() { command -v "$1" >/dev/null || fail 23 "$1 is not installed."; }
for each in blkid awk readlink head tr wc; do needs "$each"; done

disk=
for link in "$root"/dev/disk/by-id/*"$serial"*; do
    case $link in *-part*) continue ;; esac
    [ -e "$link" ] && disk=$(readlink -f "$link") && break
done
for each in "$root"/sys/block/*/serial "$root"/sys/block/*/device/vpd_pg80; do
    [ -z "$disk" ] && [ -e "$each" ] || continue
    shown=${each#"$root/sys/block/"}
    tr -d '\000' <"$each" 2>/dev/null | grep -q "$serial" && disk=$root/dev/${shown%%/*}
done
[ -n "$disk" ] || fail 20 "No disk has the serial number $serial."
name=${disk##*/}

if [ "$verb" != inspect ]; then
    exec 9>"$root/run/novella-disks.lock"
    command -v flock >/dev/null && flock 9
fi
mounted=$(awk -v disk="$disk" '$1 == disk { print $2; exit }' "$root/proc/mounts")
content= kind=
found=$(blkid -p -o export "$disk" 2>/dev/null)
case $? in
    0)
        kind=$(echo "$found" | sed -n 's/^TYPE=//p; s/^PTTYPE=//p' | head -n 1)
        content=other
        [ "$(echo "$found" | sed -n 's/^USAGE=//p')" = filesystem ] && content=filesystem ;;
    2)
        content=empty
        [ "$(head -c 1048576 "$disk" | tr -d '\000' | wc -c)" -eq 0 ] || content=other
        for each in "$root/sys/block/$name/$name"?* "$root/sys/block/$name/holders"/*; do
            [ -e "$each" ] && content=other
        done ;;
    *)
        fail 24 "blkid cannot examine $disk." ;;
esac

if [ "$verb" = inspect ]; then
    echo "device=$disk"
    echo "content=$content"
    echo "kind=$kind"
    echo "mounted=$mounted"
    exit 0
fi

if [ "$verb" = extend ]; then
    [ "$content" = filesystem ] || fail 21 "$disk has no file system."
    [ -n "$mounted" ] || fail 22 "$disk is not mounted."
    case $kind in
        ext2 | ext3 | ext4) needs resize2fs; resize2fs "$disk" >&2 || exit 1 ;;
        xfs) needs xfs_growfs; xfs_growfs "$mounted" >&2 || exit 1 ;;
        btrfs) needs btrfs; btrfs filesystem resize max "$mounted" >&2 || exit 1 ;;
        *) fail 23 "A file system of the type $kind cannot be extended by the guest agent." ;;
    esac
    exit 0
fi

fstab=$root/etc/fstab
[ -e "$fstab" ] || : >"$fstab" || exit 1
[ "$content" != other ] || fail 21 "$disk has data${kind:+ ($kind)}."
uuid=$(blkid -p -s UUID -o value "$disk" 2>/dev/null)
place=$(awk -v own="UUID=$uuid" '$1 == own { print $2; exit }' "$fstab")
[ -z "$place" ] || [ "$place" = "$directory" ] || fail 22 "/etc/fstab mounts $disk at $place."
if [ "$mounted" != "$directory" ]; then
    [ -z "$mounted" ] || fail 22 "$disk is mounted at $mounted."
    awk -v place="$directory" -v own="UUID=$uuid" \
        '$2 == place && $1 != own { found = 1 } END { exit found }' "$root/proc/mounts" "$fstab" ||
        fail 22 "Another disk is mounted at $directory."
    [ -z "$(ls -A "$root$directory" 2>/dev/null)" ] || fail 22 "$directory is not empty."
    if [ "$content" = empty ]; then
        needs mkfs.ext4
        mkfs.ext4 -q -E nodiscard "$disk" >&2 || exit 1
    fi
    mkdir -p "$root$directory" || exit 1
    mount "$disk" "$root$directory" >&2 || exit 1
    command -v restorecon >/dev/null && restorecon "$root$directory"
fi
uuid=$(blkid -p -s UUID -o value "$disk")
[ -n "$uuid" ] || fail 24 "The file system of $disk has no UUID."
if ! grep -q "^UUID=$uuid[[:space:]]" "$fstab"; then
    [ -z "$(tail -c 1 "$fstab" 2>/dev/null)" ] || echo >>"$fstab"
    echo "UUID=$uuid $directory auto defaults,nofail 0 2" >>"$fstab" || exit 1
    command -v systemctl >/dev/null && systemctl daemon-reload
fi
exit 0
"""
"""Shell program with the arguments ``root`` (empty), ``inspect``, ``mount`` or ``extend``, serial number, directory. It
has the same effect if it is run again, and ends with a status of ``FAILURES``, or 1 and an error message.
"""


class GuestDisks(abc.ABC):
    """Operations on the disks of a running guest; all raise UnsupportedError if no guest agent answers,
    GuestProgramsDisabledError if it does not run programs, and GuestDiskError if the guest refuses.
    """

    @abc.abstractmethod
    def inspect_disk(self, uuid: str, serial: str, timeout: float) -> InspectedDisk:
        """Examine a disk within ``timeout`` seconds; untrusted and bounded."""

    @abc.abstractmethod
    def mount_disk(self, uuid: str, serial: str, directory: str, timeout: float) -> None:
        """Mount a disk now and at each start; format it before only if it is empty. Idempotent."""

    @abc.abstractmethod
    def extend_file_system(self, uuid: str, serial: str, timeout: float) -> None:
        """Extend the mounted file system of a disk to the size of the disk. Idempotent."""


def arguments(verb: str, serial: str, directory: str = "") -> list[str]:
    """Return the arguments of the program. Raises GuestDiskError for one that a shell or fstab could interpret."""
    parts = directory.split("/")
    valid = len(directory) <= LONGEST_DIRECTORY and _DIRECTORY.fullmatch(directory) and not {".", ".."} & set(parts)
    if not _SERIAL.fullmatch(serial) or (directory and not valid):
        raise GuestDiskError("The request is invalid.")
    return ["", verb, serial[:SHOWN_SERIAL], directory]


def inspected(output: str) -> InspectedDisk:
    """Convert the program's output. Raises GuestDiskError for output of another form."""
    values = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    contents: dict[str, Content] = {"empty": "empty", "filesystem": "filesystem", "other": "other"}
    content = contents.get(values.get("content", ""))
    if content is None or not values.get("device"):
        raise GuestDiskError(FAILURES[24], detail=output[:LONGEST])
    return InspectedDisk(
        device=clean(values["device"]),
        content=content,
        kind=clean(values.get("kind", ""))[:32],
        mount_point=clean(values.get("mounted", "")),
    )


def failure(status: int, error: str) -> GuestDiskError:
    """Return the error of a program that has failed, with the last line of its output, which is the guest's text."""
    last_line = next((line for line in reversed(error.splitlines()) if line.strip()), "")
    sentence = FAILURES.get(status, "The guest agent could not complete the work.")
    return GuestDiskError(f"{sentence} {clean(last_line)}".strip())


def clean(text: str) -> str:
    """Return a text from the guest as one bounded line."""
    return _CONTROL.sub("\ufffd", text[:LONGEST])
