"""Connection tracking: the size of the kernel's table for a host's guests, and each guest's share.

The kernel limits the tracked connections of each network namespace; at the limit, new connections of all guests fail.
Therefore each interface has a share of the table, and idle connections expire early. The kernel also limits the memory
of incomplete fragments. That limit is raised here, and the timeout of fragments is reduced to seconds (``rates`` limits
how many fragments a guest sends).
"""

import logging
from pathlib import Path

from compute_agent.contract.messages import Tracking
from compute_agent.network.kernel import links
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

FOLDER = Path("/proc/sys/net/netfilter")
ESTABLISHED = "net.netfilter.nf_conntrack_tcp_timeout_established"
IDLE = "3600"
"""Seconds after which an idle TCP connection is no longer tracked; the kernel's default is five days."""
KIB_PER_ENTRY = 32
"""KiB of the host's memory for each tracked connection. An entry takes about 0.3 KiB, so a full table takes a hundredth
of the memory.
"""
DEFAULT = 262_144
"""Connections that the kernel tracks on a machine with more than 4 GiB."""
LARGEST_PART = 20
"""An interface gets at most a 20th of the table."""
FULL = 0.8
"""The fraction of the table above which operators are warned; all shares together do not exceed it."""
LEAST = 256
"""Minimum share of an interface, in connections."""
NEIGHBOURS = (
    ("net.{}.neigh.default.gc_thresh2", 16_384),
    ("net.{}.neigh.default.gc_thresh3", 65_536),
)
"""Limits of the kernel's neighbour table, which all namespaces of a machine share."""
FRAGMENTS = (
    "net.ipv4.ipfrag_high_thresh",
    "net.ipv6.ip6frag_high_thresh",
    "net.netfilter.nf_conntrack_frag6_high_thresh",
)
"""Settings for bytes of incomplete fragments in a namespace."""
FRAGMENTS_PART, LEAST_FRAGMENTS, MOST_FRAGMENTS = 64, 4 << 20, 1 << 30
"""Fraction of the host's memory, with bounds in bytes; the minimum is the kernel's default."""
WAITS = ("net.ipv4.ipfrag_time", "net.ipv6.ip6frag_time", "net.netfilter.nf_conntrack_frag6_timeout")
WAITS_SECONDS = 5
"""Timeout of fragments; the kernel's defaults are 30 and 60 s."""


def prepare_machine() -> None:
    """Enlarge the kernel's tables of connections and neighbours, for guests. The calling thread must be in the
    machine's namespace. Larger values are kept.
    """
    rows = [("net.netfilter.nf_conntrack_max", _memory_kib() // KIB_PER_ENTRY)]
    rows += [(name.format(family), least) for family in ("ipv4", "ipv6") for name, least in NEIGHBOURS]
    for name, least in rows:
        try:
            if 0 < _read(Path("/proc/sys") / name.replace(".", "/")) < least:
                links.write_sysctl(name, str(least))
        except (OSError, RetryableHostError) as error:  # in a container, the machine may be read-only
            log.info("%s is left as it is: %s", name, error)


def prepare_namespace() -> None:
    """Shorten the timeout of idle connections in the calling thread's namespace, and prepare it for fragments."""
    prepare_fragments()
    if 0 < entries("nf_conntrack_tcp_timeout_established", int(IDLE)) <= int(IDLE):
        return
    try:
        links.write_sysctl(ESTABLISHED, IDLE)
    except RetryableHostError as error:
        log.warning("the timeout of idle connections cannot be shortened: %s", error.detail)


def prepare_fragments() -> None:
    """Raise the memory for fragments in the calling thread's namespace, and reduce their timeout to seconds."""
    memory = min(max(_memory_kib() * 1024 // FRAGMENTS_PART, LEAST_FRAGMENTS), MOST_FRAGMENTS)
    limits = [(name, memory, 1) for name in FRAGMENTS] + [(name, WAITS_SECONDS, -1) for name in WAITS]
    for name, value, way in limits:
        try:
            if _read(Path("/proc/sys") / name.replace(".", "/")) * way < value * way:
                links.write_sysctl(name, str(value))
        except (OSError, RetryableHostError) as error:  # without IPv6
            log.info("%s is left as it is: %s", name, error)


def limit() -> int:
    """Return the limit of tracked connections in the calling thread's namespace."""
    return entries("nf_conntrack_max", DEFAULT) or DEFAULT


def share(ports: int) -> int:
    """Return how many connections each of ``ports`` interfaces may begin, and how many may be begun with each.

    The number changes only at powers of two of ``ports``, because a change restarts the counting.
    """
    table, rounded = limit(), 1 << max(0, ports - 1).bit_length()
    return max(LEAST, min(table // LARGEST_PART, int(table * FULL / 2) // rounded))


def warnings(now: Tracking | None) -> list[str]:
    """Return a sentence for operators if a namespace is close to its limit of tracked connections."""
    if now is None or now.entries < now.limit * FULL:
        return []
    text = f"This host tracks {now.entries} connections of guests, and its kernel can track {now.limit}"
    most = (
        f" Interface {now.port} has begun the most connections: {now.largest} of at most {now.share}."
        if now.port
        else ""
    )
    return [f"{text} (nf_conntrack_max).{most}"]


def entries(name: str, unknown: int) -> int:
    """Return a value of connection tracking in the calling thread's namespace; ``unknown`` if the module is
    not loaded.
    """
    try:
        return _read(FOLDER / name)
    except OSError:
        return unknown


def _read(path: Path) -> int:
    return int(path.read_text())


def _memory_kib() -> int:
    rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return next((int(row[1]) for row in rows if row[0] == "MemTotal:"), 0)
