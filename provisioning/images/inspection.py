"""Looks at image data while it streams by: what format it really is, and whether a host may open it.

A host trusts the format written here and opens images with it and nothing else, so a disguised image must not pass.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, cast

from oslo_utils.imageutils import format_inspector

from compute_agent.contract import disk_formats
from compute_agent.contract.disk_structure import DiskStructureError, virtual_size
from provisioning.common.errors import InvalidInputError
from provisioning.images.errors import ImageContentError
from provisioning.images.qcow2 import Qcow2File

PIECE = 1 << 20
"""Bytes given to the inspectors at once: some judge by the first piece alone, so it is not the sender who sizes it."""
DISK_FORMATS = tuple(disk_formats.FORMATS)
"""What is taken: what a host can use; Glance's ``disk_formats``."""
BOOTABLE_FORMATS = disk_formats.BOOTABLE
"""What a root disk can be made from: kernels and ramdisks are no disks."""
CONTAINER_FORMATS = ("bare", "ami", "aki", "ari")
"""Glance's ``container_formats``."""
AMAZON = frozenset({"ami", "aki", "ari"})
"""Containers that hold a disk of their own name only."""


class Inspector:
    """Passes data through and learns its format; memory stays constant."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._wrapper = format_inspector.InspectWrapper(cast(IO[bytes], _pieces(chunks)))

    def __iter__(self) -> Iterator[bytes]:
        """Yield the same bytes in pieces of one size."""
        return iter(self._wrapper)

    def check(self, disk_format: str, file: IO[bytes], size: int) -> int:
        """Judge the data after its end, with the file of ``size`` bytes it was written to; return its disk's bytes.

        Raises ImageContentError when it is not ``disk_format``, is damaged, or would make a host open other files.
        Moves the file's position.
        """
        found = self._formats()
        # A boot sector inside the header's padding of another format would be a second format.
        if not disk_formats.FORMATS[disk_format].fits(set(found)):
            raise ImageContentError(_mismatch(disk_format, found), field="disk_format")
        if disk_format == "qcow2":
            _check_safety(disk_format, found)
            Qcow2File(file, size).check()
            return int(found[disk_format].virtual_size)
        try:
            disk = virtual_size(file, size, disk_format)
        except DiskStructureError as error:
            msg = f"Image content is not safe to open, or not whole: it {error}."
            raise ImageContentError(msg, field="disk_format") from None
        _check_safety(disk_format, found)
        return disk

    def _formats(self) -> dict[str, format_inspector.FileInspector]:
        """Return the inspectors that recognise the data, by name."""
        try:
            return {str(found): found for found in self._wrapper.formats or []}
        except (format_inspector.ImageFormatError, AttributeError, struct.error, IndexError):
            # An inspector that stumbles over the data has at least taken it for its own.
            msg = "Image content could not be recognised."
            raise ImageContentError(msg) from None


def check_container(disk_format: str, container_format: str) -> None:
    """Check that the formats go together; InvalidInputError."""
    if container_format in AMAZON and disk_format != container_format:
        msg = (
            "Invalid mix of disk and container formats. When setting a disk or container format to one of "
            "'aki', 'ari', or 'ami', the container and disk formats must match."
        )
        raise InvalidInputError(msg, field="container_format")


def _check_safety(disk_format: str, found: Mapping[str, format_inspector.FileInspector]) -> None:
    """Let the inspector of the format say what it has against the file."""
    inspector = found.get(disk_format)
    if inspector is None:
        return
    try:
        inspector.safety_check()
    except format_inspector.SafetyCheckFailed as error:
        reasons = ", ".join(str(failure) for failure in error.failures.values())
        msg = f"Image content is not safe to open: {reasons}."
        raise ImageContentError(msg) from None
    except format_inspector.ImageFormatError as error:
        msg = f"Image content is not a complete {disk_format} image: {error}."
        raise ImageContentError(msg) from None


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data in pieces of one size, whatever the sizes it comes in."""
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= PIECE:
            yield bytes(waiting[:PIECE])
            del waiting[:PIECE]
    if waiting:
        yield bytes(waiting)


def _mismatch(declared: str, found: Iterable[str]) -> str:
    """Say what was declared and what it is."""
    return f"Image content does not match disk_format {declared}: it is {' and '.join(sorted(found)) or 'unknown'}."
