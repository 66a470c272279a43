"""Reads untrusted files, for the modules of all formats."""

from typing import IO

SECTOR = 512
PIECE = 1 << 20
"""Limit of the bytes of a table that are read together, so that memory usage does not depend on sizes in the file."""
NO_UUID = bytes(16)
CUT_SHORT = "is damaged: its tables point outside of the file, or it was cut short"
HAS_PARENT = "has a parent: it contains only the differences from another file"


class DiskFormatError(ValueError):
    """An image must not be opened. The message completes the sentence "the image …"."""


def read_at(file: IO[bytes], offset: int, length: int) -> bytes:
    """Return exactly ``length`` bytes from ``offset``. Raises DiskFormatError if the file is too short, or if
    ``offset`` is invalid.
    """
    try:
        file.seek(offset)
    except (OSError, OverflowError, ValueError):
        raise DiskFormatError(CUT_SHORT) from None
    data = file.read(length)
    require(len(data) == length)
    return data


def require(holds: bool, otherwise: str = CUT_SHORT) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise DiskFormatError(otherwise)
