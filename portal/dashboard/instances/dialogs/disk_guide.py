"""Commands that mount and extend a volume in a guest with Linux."""

import re
from dataclasses import dataclass

SERIAL = 20
"""Characters of a volume's id that a guest sees as the disk's serial number: the limit of virtio and ATA."""
LONGEST_NAME = 32
_BY_ID = {
    "virtio": "virtio-",
    "scsi": "scsi-0QEMU_QEMU_HARDDISK_",
    "sata": "ata-QEMU_HARDDISK_",
    "ide": "ata-QEMU_HARDDISK_",
}
"""Bus → prefix of the link that udev creates in ``/dev/disk/by-id``."""

_EXTEND_ROOT = (
    'sudo growpart "$(readlink -f "$disk")" 1',
    'sudo resize2fs "$(lsblk -nrpo NAME "$disk" | sed -n 2p)"  # ext4',
    "sudo xfs_growfs /  # XFS",
)


@dataclass(frozen=True, slots=True)
class Guide:
    """Commands for a shell of the guest; ``is_new``: the volume was attached a short time ago."""

    serial: str
    mount: str
    """Empty for the disk that the guest boots from."""
    extend: str
    is_new: bool = False
    directory: str = ""
    """Directory at which cloud-init mounts the volume; empty: it does not."""


def guide_for(
    volume_id: str, name: str, bus: str, *, is_root: bool, is_new: bool = False, directory: str = ""
) -> Guide:
    """Return the commands for a volume on a bus. They format only a disk without any signature.

    ``directory``: where cloud-init mounts the volume, empty: nowhere.
    """
    serial = volume_id[:SERIAL]
    disk = _path(serial, bus)
    if is_root:
        return Guide(serial, "", "\n".join((f"disk={disk}", *_EXTEND_ROOT)), is_new)
    folder = directory_for(volume_id, name, directory)
    entry = f'UUID=$(sudo blkid -s UUID -o value "$disk") {folder} auto defaults,nofail 0 2'
    mount = (
        f"disk={disk}",
        'sudo blkid -p "$disk"; [ $? -eq 2 ] && sudo mkfs.ext4 "$disk"  # only if it is empty',
        f"sudo mkdir -p {folder}",
        f'echo "{entry}" | sudo tee -a /etc/fstab',
        f"sudo mount {folder}",
    )
    extend = (f"sudo resize2fs {disk}  # ext4", f"sudo xfs_growfs {folder}  # XFS")
    return Guide(serial, "\n".join(mount), "\n".join(extend), is_new, directory)


def directory_for(volume_id: str, name: str, directory: str = "") -> str:
    """Return the directory at which a volume is mounted: ``directory`` if cloud-init mounts it there."""
    return directory or f"/mnt/{_slug(name) or volume_id[:8]}"


def _slug(name: str) -> str:
    """Return a name without characters that a shell or ``/etc/fstab`` interprets."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_NAME].strip("-")


def _path(serial: str, bus: str) -> str:
    if bus in _BY_ID:
        return f"/dev/disk/by-id/{_BY_ID[bus]}{serial}"
    return f"\"$(lsblk -dnpo NAME,SERIAL | awk '$2 ~ /^{serial}/ {{ print $1 }}')\""
