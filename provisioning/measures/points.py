"""Encodes the points of a block as bytes, and decodes them to one sequence of codes for each series."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from provisioning.measures.codes import encode, mean, pack, unpack, values
from provisioning.measures.resolutions import COARSE, FINE, MIDDLE, SLOTS_A_MINUTE


class Columns(NamedTuple):
    """The codes of one series: means and maximums, one each for every point."""

    means: Sequence[int]
    maximums: Sequence[int]


def put(data: bytes, points: Mapping[int, bytes], size: int) -> bytes:
    """Return a block's bytes with points at their places; a point has ``size`` bytes."""
    changed = bytearray(data)
    for place, point in points.items():
        at = place * size
        if len(changed) < at:
            changed.extend(bytes(at - len(changed)))
        changed[at : at + size] = point
    return bytes(changed)


def columns(data: bytes, width: int, resolution: int) -> list[Columns]:
    """Return the columns of a block; in the finest resolution, a point is its own maximum."""
    codes = unpack(data)
    if resolution == FINE.seconds:
        return [Columns(codes[at::width], codes[at::width]) for at in range(width)]
    return [Columns(codes[at :: 2 * width], codes[width + at :: 2 * width]) for at in range(width)]


def first_means(data: bytes, width: int, resolution: int) -> Sequence[float | None]:
    """Return the means of the first series of a block in points of MIDDLE; ``resolution`` is FINE or MIDDLE."""
    if resolution == MIDDLE.seconds:
        table = values()
        return [table[code] if code else None for code in unpack(data)[:: 2 * width]]
    codes = unpack(data)[::width]
    return [mean(codes[at : at + SLOTS_A_MINUTE]) for at in range(0, len(codes), SLOTS_A_MINUTE)]


def condense(data: bytes, width: int) -> tuple[list[bytes], bytes]:
    """Condense a block of FINE. Returns its points of MIDDLE, and its point of COARSE."""
    means = [column.means for column in columns(data, width, FINE.seconds)]
    whole = COARSE.seconds // FINE.seconds
    minutes = [_point(means, at, SLOTS_A_MINUTE) for at in range(0, len(means[0]), SLOTS_A_MINUTE)]
    return minutes, _point(means, 0, whole)


def _point(columns: Sequence[Sequence[int]], first: int, many: int) -> bytes:
    parts = [column[first : first + many] for column in columns]
    return pack([encode(mean(part)) for part in parts] + [max(part, default=0) for part in parts])
