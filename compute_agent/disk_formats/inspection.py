"""Inspects an image's data while it is streamed: its real format, and whether a host may open it.

A host opens an image only with its recorded format. Therefore an image whose data has another format must be rejected.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import IO, cast

from oslo_utils.imageutils import format_inspector

from compute_agent.disk_formats.formats import FORMATS
from compute_agent.disk_formats.reading import CUT_SHORT, PIECE, DiskFormatError


class Inspector:
    """Passes data through and determines its format, with constant memory usage."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._wrapper = format_inspector.InspectWrapper(cast(IO[bytes], _pieces(chunks)))

    def __iter__(self) -> Iterator[bytes]:
        """Yield the same bytes in pieces of one size."""
        return iter(self._wrapper)

    def check(self, disk_format: str, file: IO[bytes], size: int) -> int:
        """Check the complete data in the file of ``size`` bytes. Return the size of its disk in bytes.

        Raises DiskFormatError if the file is not of the format ``disk_format``, is damaged, or would cause a host to
        open other files. Changes the file's position.
        """
        formats = self._formats()
        known = FORMATS[disk_format]
        if not known.fits(set(formats)):
            seen = " and ".join(sorted(formats))
            raise DiskFormatError(f"does not match disk_format {disk_format}: it is {seen}")
        if known.seen_as in formats:
            _check_safety(formats[known.seen_as])
        try:
            disk = known.check(file, size)
        except DiskFormatError:
            raise
        except (struct.error, ValueError, LookupError):
            disk = 0
        if disk <= 0:
            raise DiskFormatError(CUT_SHORT)
        return disk

    def _formats(self) -> dict[str, format_inspector.FileInspector]:
        """Return the inspectors that recognise the data, by name."""
        try:
            return {str(inspector): inspector for inspector in self._wrapper.formats or []}
        except (format_inspector.ImageFormatError, AttributeError, struct.error, IndexError):
            # An inspector that fails has recognised the data as its format.
            raise DiskFormatError("is of a format that is not known") from None


def _check_safety(inspector: format_inspector.FileInspector) -> None:
    try:
        inspector.safety_check()
    except format_inspector.SafetyCheckFailed as error:
        reasons = ", ".join(sorted(error.failures)).replace("_", " ")
        raise DiskFormatError(f"is not safe to open: {reasons}") from None
    except format_inspector.ImageFormatError:
        raise DiskFormatError("is not whole") from None


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data in pieces of one size. Some inspectors only look at the first piece, so the sender must not be
    able to choose its size.
    """
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= PIECE:
            yield bytes(waiting[:PIECE])
            del waiting[:PIECE]
    if waiting:
        yield bytes(waiting)
