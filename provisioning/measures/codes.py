"""Values as 16-bit codes of a logarithmic scale, with an error of 0.04 %.

Code 0 is a missing value and 1 is zero. A larger value has a larger code, so that the maximum of codes is the code of
the maximum. Bytes are little-endian.
"""

import math
import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import cache

UNIT = 0.001
"""Values below are indistinguishable from zero."""
MOST = 1e13
LAST = 0xFFFF
_FACTOR = (LAST - 1) / math.log1p(MOST / UNIT)


def encode(value: float | None) -> int:
    """Return the code of a value between 0 and ``MOST``."""
    return 0 if value is None else 1 + round(math.log1p(value / UNIT) * _FACTOR)


@cache
def values() -> Sequence[float]:
    """Return the values of all codes; 0.0 for the missing value."""
    return array("d", [0.0, *(math.expm1(step / _FACTOR) * UNIT for step in range(LAST))])


def pack(codes: Sequence[int]) -> bytes:
    """Return the bytes of codes."""
    return struct.pack(f"<{len(codes)}H", *codes)


def unpack(data: bytes) -> tuple[int, ...]:
    """Return the codes in bytes."""
    return struct.unpack(f"<{len(data) // 2}H", data)


def mean(codes: Sequence[int]) -> float | None:
    """Return the mean of the values that are not missing; None if all are missing."""
    known = len(codes) - codes.count(0)
    return sum(map(values().__getitem__, codes)) / known if known else None


def mean_of(some: Sequence[float | None]) -> float | None:
    """Return the mean of the known values; None if no value is known."""
    known = [value for value in some if value is not None]
    return sum(known) / len(known) if known else None


def total(all_values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None if no value is known."""
    known = [value for value in all_values if value is not None]
    return math.fsum(known) if known else None
