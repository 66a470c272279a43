"""The firmware that can boot a disk or a CD, as far as its first sectors show: BIOS, UEFI, or either.

Sources: https://uefi.org/specs/UEFI/2.10/05_GUID_Partition_Table_Format.html, the "El Torito" specification of bootable
CDs, and, for a BIOS, the MBR, whose code is executed unchanged.
"""

import struct
import uuid
from collections.abc import Iterator
from typing import IO, NamedTuple

from compute_agent.disk_formats.contents import Contents, contents
from compute_agent.disk_formats.reading import SECTOR, DiskFormatError, require

BIOS, UEFI, EITHER, UNKNOWN = "bios", "uefi", "bios or uefi", ""
"""The results of ``firmware_of``. UNKNOWN: the first sectors show no boot code."""
ESP = uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
BIOS_BOOT = uuid.UUID("21686148-6449-6e6f-744e-656564454649")
"""The partition types of an EFI system partition, and of a BIOS boot partition, which contains GRUB's core image."""
_MBR_ESP, _PROTECTIVE, _NONE = 0xEF, 0xEE, 0
_CODE, _TABLE, _SIGNATURE = slice(0, 440), 446, slice(510, 512)
_PARTITION = struct.Struct("<B3xB3xII")
"""Entry of the MBR: active, type, first sector, number of sectors."""
_GPT = struct.Struct("<8s64xQIII")
"""Header of the GPT: magic, first sector of the table, entries, size of an entry, checksum. Other fields are skipped.
"""
_ENTRY = struct.Struct("<16s16sQQQ")
"""Entry of the GPT: type, id, first sector, last sector, attributes."""
_LEGACY_BOOT = 1 << 2
_LONGEST_TABLE = 1 << 20
_CD_SECTOR = 2048
_BOOT_RECORD, _CATALOG_AT = b"\0CD001\1EL TORITO SPECIFICATION", 0x47
_BOOTABLE, _SECTION, _LAST_SECTION = 0x88, 0x90, 0x91
_OF_EFI = 0xEF


class _Support(NamedTuple):
    bios: bool = False
    uefi: bool = False

    @property
    def word(self) -> str:
        if self.bios and self.uefi:
            return EITHER
        return BIOS if self.bios else UEFI if self.uefi else UNKNOWN


def firmware_of(disk_format: str, file: IO[bytes], size: int) -> str:
    """Return the firmware that boots an image with a disk of ``size`` bytes: BIOS, UEFI, EITHER or UNKNOWN.

    ``FORMATS[disk_format].check`` must have accepted the file; its position is changed. No content of the file causes
    an exception.
    """
    try:
        disk = contents(disk_format, file, size)
        return (_of_cd(disk) if disk_format == "iso" else _of_disk(disk)).word
    except (DiskFormatError, struct.error, ValueError, LookupError, OverflowError):
        return UNKNOWN


def _of_disk(disk: Contents) -> _Support:
    first = disk.read(0, SECTOR)
    if first[_SIGNATURE] != b"\x55\xaa":
        return _Support()
    code = any(first[_CODE])
    partitions = [_PARTITION.unpack_from(first, _TABLE + number * _PARTITION.size) for number in range(4)]
    kinds = {kind for _, kind, _, _ in partitions} - {_NONE}
    if _PROTECTIVE not in kinds:
        return _Support(bios=code and bool(kinds), uefi=_MBR_ESP in kinds)
    entries = list(_gpt(disk))
    # Many tools write MBR code before a GPT even if it boots nothing, so code alone does not count.
    started = b"GRUB" in first[_CODE] or any(active & 0x80 and kind != _PROTECTIVE for active, kind, _, _ in partitions)
    helped = any(kind == BIOS_BOOT or attributes & _LEGACY_BOOT for kind, attributes in entries)
    return _Support(bios=code and (started or helped), uefi=any(kind == ESP for kind, _ in entries))


def _gpt(disk: Contents) -> Iterator[tuple[uuid.UUID, int]]:
    """Yield the type and the attributes of each partition in the GPT."""
    magic, table, count, width, _ = _GPT.unpack(disk.read(SECTOR, _GPT.size))
    require(magic == b"EFI PART" and 128 <= width <= 4096 and count * width <= _LONGEST_TABLE)
    data = disk.read(table * SECTOR, count * width)
    for place in range(0, len(data), width):
        kind, _, _, _, attributes = _ENTRY.unpack_from(data, place)
        if any(kind):
            yield uuid.UUID(bytes_le=kind), attributes


def _of_cd(disk: Contents) -> _Support:
    """Return the firmware (BIOS, UEFI) that can boot the CD, from the bootable entries of its El Torito
    boot catalog.
    """
    record = disk.read(17 * _CD_SECTOR, _CD_SECTOR)
    if not record.startswith(_BOOT_RECORD):
        return _Support()
    (catalog,) = struct.unpack_from("<I", record, _CATALOG_AT)
    data = disk.read(catalog * _CD_SECTOR, _CD_SECTOR)
    require(data[0] == 1 and data[30:32] == b"\x55\xaa")
    platforms = {data[1]} if data[32] == _BOOTABLE else set()
    place = 64
    while place + 32 <= len(data) and data[place] in (_SECTION, _LAST_SECTION):
        last, platform, many = data[place] == _LAST_SECTION, data[place + 1], *struct.unpack_from("<H", data, place + 2)
        entries = data[place + 32 : place + 32 + many * 32 : 32]
        if _BOOTABLE in entries:
            platforms.add(platform)
        place += 32 * (1 + many)
        if last:
            break
    return _Support(bios=bool(platforms - {_OF_EFI}), uefi=_OF_EFI in platforms)
