"""Time limits of data transfers: a sufficiently fast transfer is not aborted, whatever its size."""

STEADY = 1 << 20
"""Bytes per second; a transfer with this average speed has no time limit."""


def seconds_for(seconds: float, size: int) -> float:
    """Return the time limit in seconds of a transfer of which ``size`` bytes were received: ``seconds``, plus the time
    that ``size`` bytes take at ``STEADY``.
    """
    return seconds + size / STEADY
