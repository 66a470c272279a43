"""Looks at image data while it streams by: what format it really is, and whether a host may open it.

A host trusts the format written here and opens images with it and nothing else, so a disguised image must not pass.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import IO, cast

from oslo_utils.imageutils import format_inspector

from provisioning.images.errors import ImageContentError
from provisioning.images.qcow2 import Qcow2File

PIECE = 1 << 20
"""Bytes given to the inspectors at once: some judge by the first piece alone, so it is not the sender who sizes it."""
DISK_FORMATS = ("raw", "qcow2")
"""What a host opens, and so what is taken; Glance's ``disk_formats``."""
CONTAINER_FORMATS = ("bare",)
"""Glance's ``container_formats``."""
RAW_CONTENT = {"raw", "gpt"}
"""What the inspectors call a raw disk; ``gpt`` is one with a GPT or an MBR partition table."""


class Inspector:
    """Passes data through and learns its format; memory stays constant."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._wrapper = format_inspector.InspectWrapper(cast(IO[bytes], _pieces(chunks)))

    def __iter__(self) -> Iterator[bytes]:
        """Yield the same bytes in pieces of one size."""
        return iter(self._wrapper)

    def check(self, disk_format: str) -> int | None:
        """Judge the data after its end: return the virtual size in bytes that its header says, None for raw.

        Raises ImageContentError when it is not ``disk_format`` or is unsafe.
        """
        found = self._formats()
        if disk_format == "raw":
            if not set(found) <= RAW_CONTENT:
                raise ImageContentError(_mismatch(disk_format, found), field="disk_format")
            return None  # a raw disk is opened as raw: nothing in it is believed
        # A boot sector inside the header's padding of another format would be a second format.
        if list(found) != [disk_format]:
            raise ImageContentError(_mismatch(disk_format, found), field="disk_format")
        inspector = found[disk_format]
        try:
            inspector.safety_check()
        except format_inspector.SafetyCheckFailed as error:
            reasons = ", ".join(str(failure) for failure in error.failures.values())
            msg = f"Image content is not safe to open: {reasons}."
            raise ImageContentError(msg) from None
        except format_inspector.ImageFormatError as error:
            msg = f"Image content is not a complete {disk_format} image: {error}."
            raise ImageContentError(msg) from None
        return int(inspector.virtual_size)

    def _formats(self) -> dict[str, format_inspector.FileInspector]:
        """Return the inspectors that recognise the data, by name."""
        try:
            return {str(found): found for found in self._wrapper.formats or []}
        except (format_inspector.ImageFormatError, AttributeError, struct.error, IndexError):
            # An inspector that stumbles over the data has at least taken it for its own.
            msg = "Image content could not be recognised."
            raise ImageContentError(msg) from None


def check_structure(file: IO[bytes], size: int, disk_format: str) -> None:
    """Check what only the whole file of ``size`` bytes shows: a qcow2 image whose tables and data lie inside it.

    Raises ImageContentError.  Moves the file's position.
    """
    if disk_format == "qcow2":
        Qcow2File(file, size).check()


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
