"""Disk images made on the spot: good ones, and ones that would make a host read what it should not."""

from __future__ import annotations

import struct

CLUSTER = 65_536
MIB = 1 << 20


def qcow2(
    *,
    virtual_size: int = 64 * MIB,
    version: int = 3,
    backing: bytes = b"",
    features: int = 0,
    encryption: int = 0,
    l1_offset: int = 3 * CLUSTER,
    l1_entry: int = 0,
    last_cluster: int = 3,
    cluster_bits: int = 16,
    length: int = 4 * CLUSTER,
) -> bytes:
    """A qcow2 image without data: header, refcount table, refcount block, L1 table, a cluster each."""
    l1_entries = max(1, -(-virtual_size // (CLUSTER * (CLUSTER // 8))))
    backing_offset = 512 if backing else 0
    header = struct.pack(
        ">4sIQIIQIIQQIIQ",
        *(b"QFI\xfb", version, backing_offset, len(backing), cluster_bits, virtual_size, encryption),
        *(l1_entries, l1_offset, CLUSTER, 1, 0, 0),
    )
    header += struct.pack(">QQQII", features, 0, 0, 4, 104) if version > 2 else b""
    picture = bytearray(header.ljust(4 * CLUSTER, b"\0"))
    picture[512 : 512 + len(backing)] = backing
    picture[CLUSTER : CLUSTER + 8] = struct.pack(">Q", 2 * CLUSTER)
    for index in range(last_cluster + 1):
        picture[2 * CLUSTER + 2 * index : 2 * CLUSTER + 2 * index + 2] = b"\0\1"
    picture[3 * CLUSTER : 3 * CLUSTER + 8] = struct.pack(">Q", l1_entry)
    return bytes(picture).ljust(length, b"\0")[:length]


def raw(size: int = MIB) -> bytes:
    """A raw disk that looks like nothing."""
    return (b"\x37novella" * (size // 8 + 1))[:size]


def partitioned(size: int = MIB) -> bytes:
    """A raw disk with an MBR and one partition."""
    disk = bytearray(size)
    disk[446:462] = struct.pack("<B3BB3BII", 0x80, 0, 2, 0, 0x83, 0, 9, 0, 2048, 2048)
    disk[510:512] = b"\x55\xaa"
    return bytes(disk)


def vmdk_descriptor(path: str = "/etc/passwd") -> bytes:
    """A VMDK that is only text: its one extent is a file of the host."""
    text = (
        "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n"
        f'createType="monolithicFlat"\n\n# Extent description\nRW 2048 FLAT "{path}" 0\n\nddb.adapterType = "ide"\n'
    )
    return text.encode().ljust(64 * 1024, b"\n")


def vmdk_sparse() -> bytes:
    """The header of a monolithicSparse VMDK whose descriptor names a file of the host."""
    header = struct.pack("<4sIIQQQQIQQ", b"KDMV", 1, 3, 2048, 128, 1, 20, 512, 21, 26).ljust(512, b"\0")
    return (header + vmdk_descriptor().replace(b"monolithicFlat", b"monolithicSparse")).ljust(128 * 1024, b"\0")


def vhd() -> bytes:
    return b"conectix".ljust(MIB, b"\0")


def vdi() -> bytes:
    return (b"\0" * 64 + struct.pack("<I", 0xBEDA107F)).ljust(MIB, b"\0")


def qed() -> bytes:
    return b"QED\0".ljust(MIB, b"\0")


def iso() -> bytes:
    return (b"\0" * 32768 + b"\1CD001\1").ljust(MIB, b"\0")


def luks() -> bytes:
    return b"LUKS\xba\xbe\0\1".ljust(MIB, b"\0")


def qcow2_with_boot_sector() -> bytes:
    """Two formats in one file: whoever looks for the one does not see the other."""
    picture = bytearray(qcow2())
    picture[446:462] = partitioned()[446:462]
    picture[510:512] = b"\x55\xaa"
    return bytes(picture)
