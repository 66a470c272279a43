"""Connection tracking: how much room a host's guests have in the kernel's table, and how much of it each may use.

The kernel bounds the connections that it tracks in each network namespace, and new ones of everybody fail when the
bound is reached.  So each interface has a share of the table, and connections that ended in silence are forgotten soon.
"""

import logging
from pathlib import Path

from compute_agent.network import links
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

FOLDER = Path("/proc/sys/net/netfilter")
ESTABLISHED = "net.netfilter.nf_conntrack_tcp_timeout_established"
IDLE = "3600"
"""Seconds after which a silent TCP connection is forgotten; the kernel's default is five days."""
KIB_PER_ENTRY = 32
"""Of the host's memory, for each connection: an entry takes some 0.3 KiB, so a full table has a hundredth of it."""
DEFAULT = 262_144
"""Connections that the kernel tracks on a machine with more than 4 GiB."""
LARGEST_PART = 20
"""An interface has a 20th of the table at most."""
FULL = 0.8
"""The part of the table above which operators are warned; all shares together do not exceed it."""
LEAST = 256
"""Connections that an interface has in any case."""
NEIGHBOURS = (
    ("net.{}.neigh.default.gc_thresh2", 16_384),
    ("net.{}.neigh.default.gc_thresh3", 65_536),
)
"""Neighbours that the kernel keeps; all namespaces of a machine share the table."""


def prepare_machine() -> None:
    """Give guests room in tables of the calling thread's namespace, the machine's; what is larger is left alone."""
    rows = [("net.netfilter.nf_conntrack_max", _memory_kib() // KIB_PER_ENTRY)]
    rows += [(name.format(family), least) for family in ("ipv4", "ipv6") for name, least in NEIGHBOURS]
    for name, least in rows:
        try:
            if 0 < _read(Path("/proc/sys") / name.replace(".", "/")) < least:
                links.write_sysctl(name, str(least))
        except (OSError, RetryableHostError) as error:  # the machine of a container is somebody else's
            log.info("%s is left as it is: %s", name, error)


def prepare_namespace() -> None:
    """Let the calling thread's namespace forget idle connections."""
    if 0 < entries("nf_conntrack_tcp_timeout_established", int(IDLE)) <= int(IDLE):
        return
    try:
        links.write_sysctl(ESTABLISHED, IDLE)
    except RetryableHostError as error:
        log.warning("idle connections are tracked for long: %s", error.detail)


def limit() -> int:
    """Return how many connections the calling thread's namespace can have."""
    return entries("nf_conntrack_max", DEFAULT) or DEFAULT


def share(ports: int) -> int:
    """Return how many connections each of so many interfaces may begin, and as many that others begin with it.

    It changes only when the number of interfaces passes a power of two, because counting begins again then.
    """
    table, rounded = limit(), 1 << max(0, ports - 1).bit_length()
    return max(LEAST, min(table // LARGEST_PART, int(table * FULL / 2) // rounded))


def warnings() -> list[str]:
    """Return a sentence for operators when the calling thread's namespace tracks nearly as much as it can."""
    used, most = entries("nf_conntrack_count", 0), limit()
    if used < most * FULL:
        return []
    return [f"This host tracks {used} connections of guests, and its kernel has room for {most} (nf_conntrack_max)."]


def entries(name: str, unknown: int) -> int:
    """Return a number of connection tracking in the calling thread's namespace, ``unknown`` without the module."""
    try:
        return _read(FOLDER / name)
    except OSError:
        return unknown


def _read(path: Path) -> int:
    return int(path.read_text())


def _memory_kib() -> int:
    rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return next((int(row[1]) for row in rows if row[0] == "MemTotal:"), 0)
