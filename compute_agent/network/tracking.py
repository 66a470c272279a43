"""Connection tracking: how much room a host's guests have in the kernel's table, and how much of it each may use.

The kernel bounds the connections that it tracks in each network namespace, and new ones of everybody fail when the
bound is reached.  So each interface has a share of the table, and connections that ended in silence are forgotten soon.
It also bounds the memory of fragments that wait for the rest of their packets: that is larger here, and they wait for
seconds (``rates`` bounds how many a guest sends).
"""

import logging
from pathlib import Path

from compute_agent.contract.messages import Tracking
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
FRAGMENTS = (
    "net.ipv4.ipfrag_high_thresh",
    "net.ipv6.ip6frag_high_thresh",
    "net.netfilter.nf_conntrack_frag6_high_thresh",
)
"""Bytes of fragments that wait in a namespace."""
FRAGMENTS_PART, LEAST_FRAGMENTS, MOST_FRAGMENTS = 64, 4 << 20, 1 << 30
"""Of the host's memory; the kernel's default is the least."""
WAITS = ("net.ipv4.ipfrag_time", "net.ipv6.ip6frag_time", "net.netfilter.nf_conntrack_frag6_timeout")
WAITS_SECONDS = 5
"""How long fragments wait; the kernel's defaults are 30 and 60 s."""


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
    """Let the calling thread's namespace forget idle connections, and have room for fragments."""
    prepare_fragments()
    if 0 < entries("nf_conntrack_tcp_timeout_established", int(IDLE)) <= int(IDLE):
        return
    try:
        links.write_sysctl(ESTABLISHED, IDLE)
    except RetryableHostError as error:
        log.warning("idle connections are tracked for long: %s", error.detail)


def prepare_fragments() -> None:
    """Give the calling thread's namespace memory for fragments, and let them wait for seconds only."""
    memory = min(max(_memory_kib() * 1024 // FRAGMENTS_PART, LEAST_FRAGMENTS), MOST_FRAGMENTS)
    wanted = [(name, memory, 1) for name in FRAGMENTS] + [(name, WAITS_SECONDS, -1) for name in WAITS]
    for name, value, way in wanted:
        try:
            if _read(Path("/proc/sys") / name.replace(".", "/")) * way < value * way:
                links.write_sysctl(name, str(value))
        except (OSError, RetryableHostError) as error:  # without IPv6
            log.info("%s is left as it is: %s", name, error)


def limit() -> int:
    """Return how many connections the calling thread's namespace can have."""
    return entries("nf_conntrack_max", DEFAULT) or DEFAULT


def share(ports: int) -> int:
    """Return how many connections each of so many interfaces may begin, and as many that others begin with it.

    It changes only when the number of interfaces passes a power of two, because counting begins again then.
    """
    table, rounded = limit(), 1 << max(0, ports - 1).bit_length()
    return max(LEAST, min(table // LARGEST_PART, int(table * FULL / 2) // rounded))


def warnings(now: Tracking | None) -> list[str]:
    """Return a sentence for operators when a namespace tracks nearly as much as it can."""
    if now is None or now.entries < now.limit * FULL:
        return []
    said = f"This host tracks {now.entries} connections of guests, and its kernel has room for {now.limit}"
    most = f" Interface {now.port} has begun the most: {now.largest} of the {now.share} it may." if now.port else ""
    return [f"{said} (nf_conntrack_max).{most}"]


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
