"""The first sectors of disks and CDs as installers leave them: what starts from each is known."""

from __future__ import annotations

import struct
import uuid

SECTOR, CD_SECTOR = 512, 2048
ESP = uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
LINUX = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
BIOS_BOOT = uuid.UUID("21686148-6449-6e6f-744e-656564454649")
CODE = b"\xeb\x63\x90"
LEGACY_BOOT = 1 << 2


def mbr(*partitions: tuple[int, int], code: bytes = b"") -> bytes:
    """A disk of 64 KiB with partitions of these (type, active)."""
    disk = bytearray(64 << 10)
    disk[: len(code)] = code
    for number, (kind, active) in enumerate(partitions):
        disk[446 + number * 16 : 462 + number * 16] = struct.pack("<B3xB3xII", active, kind, 2048 * (number + 1), 2048)
    disk[510:512] = b"\x55\xaa"
    return bytes(disk)


def gpt(
    *kinds: uuid.UUID, code: bytes = b"", attributes: int = 0, table: int = 2, count: int = 128, width: int = 128
) -> bytes:
    """A disk with a protective MBR and partitions of these types."""
    disk = bytearray(mbr((0xEE, 0), code=code))
    header = struct.pack("<8s64xQIII", b"EFI PART", table, count, width, 0)
    disk[SECTOR : SECTOR + len(header)] = header
    for number, kind in enumerate(kinds):
        entry = struct.pack("<16s16sQQQ", kind.bytes_le, b"\1" * 16, 2048, 4095, attributes)
        place = 2 * SECTOR + number * 128
        disk[place : place + len(entry)] = entry
    return bytes(disk)


def cd(*platforms: int, catalog: int = 20) -> bytes:
    """A CD whose boot catalog has an entry for each platform: 0 a PC's BIOS, 0xEF UEFI."""
    picture = bytearray(b"\0" * 32_768 + b"\1CD001\1".ljust(1 << 20, b"\0"))
    record = b"\0CD001\1EL TORITO SPECIFICATION".ljust(0x47, b"\0") + struct.pack("<I", catalog)
    picture[17 * CD_SECTOR : 17 * CD_SECTOR + len(record)] = record
    first, *others = platforms or (0,)
    entries = bytes([1, first]).ljust(30, b"\0") + b"\x55\xaa"
    entries += (b"\x88" if platforms else b"\0").ljust(32, b"\0")
    for number, platform in enumerate(others, 1):
        entries += bytes([0x91 if number == len(others) else 0x90, platform, 1, 0]).ljust(32, b"\0")
        entries += b"\x88".ljust(32, b"\0")
    picture[20 * CD_SECTOR : 20 * CD_SECTOR + len(entries)] = entries
    return bytes(picture)
