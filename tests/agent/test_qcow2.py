"""The inspection of qcow2 accepts each of its bounds, and nothing beyond them."""

from __future__ import annotations

import io
import struct

from compute_agent.disk_formats import qcow2
from compute_agent.disk_formats.reading import PIECE, DiskFormatError

CLUSTER = 512
ENTRIES = CLUSTER // 8
BLOCK_ENTRIES = CLUSTER // 2
"""Refcounts of one block: 16 bits each."""
REFCOUNTS, BLOCK, L1, L2, DATA, END = (number * CLUSTER for number in range(1, 7))


def image(
    *, used: int = 6, size: int = END, parts: dict[int, bytes] | None = None, **header: int
) -> tuple[io.BytesIO, int]:
    """A qcow2 file of version 2 with one L2 table and one cluster of data, and its size in bytes.

    ``used``: clusters with a refcount; ``parts``: offset → bytes that replace those of the file.
    """
    fields = {
        "magic": int.from_bytes(qcow2.MAGIC, "big"), "version": 2, "backing": 0, "backing_size": 0, "bits": 9,
        "disk": CLUSTER, "encryption": 0, "l1_entries": 1, "l1": L1, "refcounts": REFCOUNTS, "clusters": 1,
        "snapshots": 0,
    } | header  # fmt: skip
    content = bytearray(size)
    written = {
        0: struct.pack(">IIQIIQIIQQII", *fields.values()),
        REFCOUNTS: struct.pack(">Q", BLOCK),
        BLOCK: b"\0\1" * used,
        L1: struct.pack(">Q", L2),
        L2: struct.pack(">Q", DATA),
    }
    for offset, data in (written | (parts or {})).items():
        content[offset : offset + len(data)] = data
    return io.BytesIO(bytes(content)), len(content)


def accepts(found: tuple[io.BytesIO, int]) -> bool:
    try:
        qcow2.check(*found)
    except DiskFormatError:
        return False
    return True


def test_the_size_of_the_disk_fits_the_tables() -> None:
    most = ENTRIES * CLUSTER
    assert qcow2.check(*image(disk=most)) == most
    assert [accepts(image(disk=disk)) for disk in (0, 1, most, most + 1)] == [False, True, True, False]


def test_clusters_have_512_bytes_to_2_mib() -> None:
    assert not accepts(image(bits=8))
    assert accepts(image(bits=9))
    assert not accepts(image(bits=22))


def test_an_encrypted_disk_is_rejected() -> None:
    assert not accepts(image(encryption=1))


def test_features_are_read_since_version_3() -> None:
    """Version 2 has no field for them: the bytes at its place belong to an extension of the header."""
    extended = {72: struct.pack(">Q", qcow2.EXTENDED_L2), 96: struct.pack(">I", 4)}
    pairs = {L2: struct.pack(">QQ", DATA, DATA) * 4}  # eight clusters, or four with bitmaps: the file has room for six
    assert accepts(image(version=3, parts=extended | pairs))
    assert not accepts(image(version=2, parts=extended | pairs))


def test_tables_are_aligned_and_within_the_file() -> None:
    assert not accepts(image(l1=L1 + 8))
    assert not accepts(image(l1=END))
    assert not accepts(image(l1_entries=0))
    assert not accepts(image(refcounts=0))
    moved = {END: struct.pack(">Q", BLOCK)}
    assert accepts(image(refcounts=END, size=END + CLUSTER, parts=moved))
    assert not accepts(image(refcounts=END, size=END + CLUSTER, clusters=2, parts=moved))


def test_every_l2_table_is_within_the_file() -> None:
    assert not accepts(image(parts={L1: struct.pack(">Q", END)}))
    far = 8 * CLUSTER
    length = PIECE + CLUSTER
    entries, size = length // 8, far + length
    assert accepts(image(l1=far, l1_entries=entries, size=size, parts={far: struct.pack(">Q", L2)}))
    beyond = {far: struct.pack(">Q", L2), far + PIECE: struct.pack(">Q", size)}
    assert not accepts(image(l1=far, l1_entries=entries, size=size, parts=beyond)), "it is in the second piece"


def test_the_file_has_its_last_cluster() -> None:
    assert accepts(image(used=6, size=END))
    assert accepts(image(used=6, size=END - 1)), "the last cluster may be incomplete"
    assert not accepts(image(used=7, size=END))
    far = {REFCOUNTS: struct.pack(">QQ", 0, BLOCK), BLOCK: b"\0\1"}
    last = BLOCK_ENTRIES * CLUSTER
    assert not accepts(image(parts=far, size=last))
    assert accepts(image(parts=far, size=last + 1)), "the first cluster of the second block"
    assert not accepts(image(parts=far | {BLOCK: b"\0\1" * 2}, size=last + 1))


def test_only_qcow2_has_a_backing_file() -> None:
    named = io.BytesIO(image(backing=DATA, backing_size=4, parts={DATA: b"base"})[0].getvalue())
    assert qcow2.backing_file(named) == "base"
    assert qcow2.backing_file(image()[0]) == ""
    assert qcow2.backing_file(io.BytesIO(bytes(512))) == ""
