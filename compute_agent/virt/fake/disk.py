"""Disk files of simulated guests: empty, but with the right size."""

import struct
from pathlib import Path

CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
_HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")


def write(target: Path, disk_format: str, size: int) -> None:
    """Write an empty disk of ``size`` bytes to ``target``: ``qcow2`` of version 3, or a sparse ``raw`` file."""
    with target.open("wb") as file:
        if disk_format == "qcow2":
            file.write(qcow2(size))
        else:
            file.truncate(size)


def qcow2(size: int) -> bytes:
    """Return header, refcount table, refcount block and an L1 table without entries, as QEMU creates for an empty
    disk.
    """
    entries = -(-size // (CLUSTER * CLUSTER // 8))
    tables = -(-entries * 8 // CLUSTER)
    header = _HEADER.pack(
        b"QFI\xfb", 3, 0, 0, CLUSTER_BITS, size, 0, entries, 3 * CLUSTER, CLUSTER, 1, 0, 0, 0, 0, 0, 4, _HEADER.size
    )
    clusters = [header, struct.pack(">Q", 2 * CLUSTER), struct.pack(">H", 1) * (3 + tables)]
    return b"".join(cluster.ljust(CLUSTER, b"\0") for cluster in clusters) + bytes(tables * CLUSTER)
