"""Ends tracked connections that are no longer allowed. Without this they would continue, because the rules accept
established connections.
"""

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple, NFCTSocket

from compute_agent.network.kernel.links import FAMILIES
from compute_agent.virt.errors import RetryableHostError


@dataclass(frozen=True)
class Flow:
    """A tracked connection, described by its first packet."""

    version: int
    """IP version: 4 or 6."""
    source: str
    target: str
    protocol: int
    port: int | None = None
    """The target port, for protocols with ports."""
    icmp: tuple[int, int] | None = None
    """Type and code."""


Judge = Callable[[Flow], bool]


def forget_flows(refused: Mapping[int, Judge]) -> int:
    """Delete tracked flows, and return their number. ``refused``: zone → function that returns whether to delete a flow
    of the zone.

    Other flows must stay tracked. If such a flow were deleted even for a moment, a reply in transit would be dropped,
    and a guest that only receives would never send the packet that restarts the flow. Raises RetryableHostError.
    """
    many = 0
    try:
        for version, family in FAMILIES.items():
            with NFCTSocket(nfgen_family=family) as tracking:
                for zone, key in [flow for entry in tracking.dump() if (flow := _refused(entry, version, refused))]:
                    many += _forget(tracking, key, zone)
    except (NetlinkError, OSError) as error:
        raise RetryableHostError("The host could not end connections of guests.", detail=str(error)) from error
    return many


def _refused(entry: Any, version: int, refused: Mapping[int, Judge]) -> tuple[int, NFCTAttrTuple] | None:
    """Return the zone and the key of an entry that is to be deleted; None if it is to be kept."""
    zone = entry.get_attr("CTA_ZONE") or 0
    first = entry.get_attr("CTA_TUPLE_ORIG")
    if zone not in refused or first is None:
        return None
    protocol = first.get_attr("CTA_TUPLE_PROTO")
    key = NFCTAttrTuple.from_netlink(FAMILIES[version], first)
    key.sport, key.dport = (protocol.get_attr(f"CTA_PROTO_{side}_PORT") for side in ("SRC", "DST"))
    icmp = None if key.icmp_type is None else (key.icmp_type, key.icmp_code or 0)
    flow = Flow(version, key.saddr, key.daddr, key.proto, key.dport, icmp)
    return (zone, key) if refused[zone](flow) else None


def _forget(tracking: NFCTSocket, key: NFCTAttrTuple, zone: int) -> int:
    try:
        tracking.entry("del", tuple_orig=key, zone=zone)
    except NetlinkError as error:
        if error.code != errno.ENOENT:  # it ended by itself
            raise
        return 0
    return 1
