"""Samples of the usage of guests and of their host.

The order of the values is that of ``GUEST_SERIES`` and ``HOST_SERIES``; None: unknown. ``cpu`` is in processors (1.5:
one and a half are busy), memory in MiB, ``disk`` in GiB; the others are bytes, requests and packets per second, as the
guest sees them: ``network_in`` counts received bytes.
"""

from compute_agent.contract.base import Message
from compute_agent.contract.build import Frozen

GUEST_SERIES = (
    "cpu",
    "memory",
    "disk_read",
    "disk_write",
    "disk_reads",
    "disk_writes",
    "network_in",
    "network_out",
    "packets_in",
    "packets_out",
)
HOST_SERIES = (*GUEST_SERIES, "load", "disk")
"""``load``: of one minute, as in /proc/loadavg. ``disk``: used space of the file system with the guests' disks."""
CURRENT = frozenset({"memory", "load", "disk"})
"""Series that are measured directly. The others are rates of counters."""
MOST_GUESTS = 1000
"""Limit of the guests in one frame."""


class GuestSample(Frozen, frozen=True):
    """The usage of one running guest."""

    instance_id: str
    values: list[float | None]


class Samples(Message, frozen=True):
    """The usage of the host and its running guests since the previous frame.

    Sent every ``Welcome.sample_interval`` seconds, and not repeated: a frame that is lost is a gap.
    """

    host: list[float | None] = []
    guests: list[GuestSample] = []
