"""The table of accepted disk formats.

The control plane and hosts use the same table, so that no image is accepted from a user that no host could use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from compute_agent.disk_formats import qcow2, vdi, vhd, vhdx, vmdk

RAW_CONTENT = frozenset({"raw", "gpt"})
"""The inspectors' names for a file without a format of its own; ``gpt``: a file with a GPT or MBR partition table."""


def _size_of_file(_file: IO[bytes], size: int) -> int:
    return size


@dataclass(frozen=True, kw_only=True)
class DiskFormat:
    """One disk format, with its name in Glance."""

    name: str
    driver: str | None = "raw"
    """QEMU's block driver for the format; None for a kernel or a ramdisk, which is not a disk."""
    seen_as: str = ""
    """The inspectors' name for the format; empty if they have none."""
    looks_raw: bool = False
    """Whether the inspectors may recognise a file of this format as a raw disk only."""
    partitioned: bool = False
    """Whether a file of this format may also contain a partition table."""
    check: Callable[[IO[bytes], int], int] = _size_of_file
    """Function of the open file and its size in bytes, which returns the size of the disk in bytes. It is called after
    the inspectors have recognised the format. Raises DiskFormatError, or an error of unpacking, for a file that is
    damaged or refers to other files.
    """

    def fits(self, formats: set[str]) -> bool:
        """Return whether a file in which the inspectors recognise ``formats`` may have this format: a file must not
        have two formats.
        """
        if formats <= RAW_CONTENT:
            return self.looks_raw and bool(formats)
        return self.seen_as in formats and formats <= {self.seen_as} | ({"gpt"} if self.partitioned else set())


FORMATS = {
    each.name: each
    for each in (
        DiskFormat(name="raw", looks_raw=True),
        DiskFormat(name="qcow2", driver="qcow2", seen_as="qcow2", check=qcow2.check),
        DiskFormat(name="vmdk", driver="vmdk", seen_as="vmdk", check=vmdk.check),
        # A fixed VHD is marked only at its end, which the inspectors do not read.
        DiskFormat(name="vhd", driver="vpc", seen_as="vhd", looks_raw=True, check=vhd.check),
        DiskFormat(name="vhdx", driver="vhdx", seen_as="vhdx", check=vhdx.check),
        DiskFormat(name="vdi", driver="vdi", seen_as="vdi", check=vdi.check),
        DiskFormat(name="iso", seen_as="iso", partitioned=True),
        DiskFormat(name="ami", looks_raw=True),
        DiskFormat(name="aki", driver=None, looks_raw=True),
        DiskFormat(name="ari", driver=None, looks_raw=True),
    )
}
"""Every accepted format, by name."""
BOOTABLE = tuple(name for name, known in FORMATS.items() if known.driver)
"""Formats of disks and CDs from which servers can be created. A server created from a CD has an empty root disk."""
