"""How long a transfer of data may take: what goes on fast enough is not cut off, whatever its size."""

STEADY = 1 << 20
"""Bytes a second: a transfer that is as fast on the whole has no end of its time."""


def seconds_for(seconds: float, size: int) -> float:
    """Return how long a transfer may take of which ``size`` bytes have come: those at ``STEADY`` count besides."""
    return seconds + size / STEADY
