"""File systems that a guest agent reports (``virDomainGetGuestInfo``). Their texts and numbers are the guest's."""

from typing import Any

from compute_agent.contract.calls import MOST_FILE_SYSTEMS, FileSystem

LONGEST_PATH = 255
LONGEST_KIND = 32
MOST_DISKS = 16
"""Maximum number of disks of one file system."""


def file_systems_of(info: dict[str, Any]) -> list[FileSystem]:
    """Convert the fields ``fs.<number>.…``; file systems without a mount point are omitted."""
    file_systems = [
        _file_system(info, f"fs.{number}.") for number in range(min(_count(info, "fs."), MOST_FILE_SYSTEMS))
    ]
    return [each for each in file_systems if each.mount_point]


def _file_system(info: dict[str, Any], prefix: str) -> FileSystem:
    total, used = _bytes(info, f"{prefix}total-bytes"), _bytes(info, f"{prefix}used-bytes")
    names = [
        str(info.get(f"{prefix}disk.{number}.alias", ""))
        for number in range(min(_count(info, f"{prefix}disk."), MOST_DISKS))
    ]
    return FileSystem(
        mount_point=str(info.get(f"{prefix}mountpoint", ""))[:LONGEST_PATH],
        kind=str(info.get(f"{prefix}fstype", ""))[:LONGEST_KIND],
        total_bytes=total,
        used_bytes=used if total is not None and used is not None and used <= total else None,
        disks=[name[:LONGEST_KIND] for name in names if name],
    )


def _count(info: dict[str, Any], prefix: str) -> int:
    return max(int(info.get(f"{prefix}count", 0)), 0)


def _bytes(info: dict[str, Any], name: str) -> int | None:
    value = info.get(name)
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None
