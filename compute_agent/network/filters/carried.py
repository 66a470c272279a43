"""Carries the tracked connections of a guest that is migrated to its new host.

The rules accept established connections in both directions. On a host that does not track a connection, its next
packet is filtered like the first packet of a new one, and dropped if no rule allows its direction. Only connections of
TCP and UDP with traffic in both directions are carried.
"""

import errno
import ipaddress
import logging
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple, NFCTSocket

from compute_agent.network.kernel.links import FAMILIES
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

MOST = 4096
"""Limit of the connections that are carried with a guest."""
PROTOCOLS = (socket.IPPROTO_TCP, socket.IPPROTO_UDP)
SEEN_REPLY, ASSURED, CONFIRMED = 2, 4, 8
"""Bits of an entry's status (``IPS_…``)."""
TCP_STATES = range(3, 7)
"""Established, and the three states of a connection that one side has closed (``TCP_CONNTRACK_…``)."""
LIBERAL = 8
"""The flag of a connection whose windows are unknown (``IP_CT_TCP_FLAG_BE_LIBERAL``)."""
LONGEST = 3600
"""Limit of an entry's timeout in seconds."""


class CarriedFlow(msgspec.Struct, frozen=True, array_like=True):
    """A connection, described by the direction of its first packet. ``state``: of TCP, 0 for UDP."""

    network_id: str
    source: str
    target: str
    protocol: int
    source_port: int
    target_port: int
    timeout: int
    state: int = 0


class TrackedPort(msgspec.Struct, frozen=True):
    """An interface of the guest on this host: its network, its connection tracking zone, and its addresses."""

    network_id: str
    zone: int
    addresses: frozenset[str]


def encoded(flows: Sequence[CarriedFlow]) -> bytes:
    return msgspec.msgpack.encode(flows)


def decoded(data: bytes) -> list[CarriedFlow]:
    """Decode the connections that another host sent. Unreadable data is ignored."""
    try:
        return msgspec.msgpack.decode(data, type=list[CarriedFlow])[:MOST] if data else []
    except msgspec.DecodeError as error:
        log.warning("A host sent connections that cannot be read: %s", error)
        return []


def flows_of(ports: Iterable[TrackedPort]) -> list[CarriedFlow]:
    """Return the guest's tracked connections. Raises RetryableHostError."""
    result: dict[CarriedFlow, None] = {}
    try:
        for port in ports:
            for flow in _dumped(port):
                result[flow] = None
    except (NetlinkError, OSError) as error:
        raise RetryableHostError("The host could not read connections of guests.", detail=str(error)) from error
    return list(result)[:MOST]


def _dumped(port: TrackedPort) -> Iterator[CarriedFlow]:
    for address in sorted(port.addresses):
        family = FAMILIES[ipaddress.ip_address(address).version]
        with NFCTSocket(nfgen_family=family) as tracking:
            for side in ("saddr", "daddr"):
                for entry in tracking.dump(tuple_orig=NFCTAttrTuple(family=family, **{side: address})):
                    if (entry.get_attr("CTA_ZONE") or 0) == port.zone and (flow := _flow(entry, family, port)):
                        yield flow


def _flow(entry: Any, family: int, port: TrackedPort) -> CarriedFlow | None:
    """Return a connection of the guest; None for one that is not carried."""
    first = NFCTAttrTuple.from_netlink(family, entry.get_attr("CTA_TUPLE_ORIG"))
    if first.proto not in PROTOCOLS or not (entry.get_attr("CTA_STATUS") or 0) & SEEN_REPLY:
        return None
    if not port.addresses & {first.saddr, first.daddr}:
        return None
    state = 0
    if first.proto == socket.IPPROTO_TCP:
        info = entry.get_attr("CTA_PROTOINFO")
        details = info.get_attr("CTA_PROTOINFO_TCP") if info is not None else None
        state = details.get_attr("CTA_PROTOINFO_TCP_STATE") if details is not None else 0
        if state not in TCP_STATES:
            return None
    return CarriedFlow(
        port.network_id, first.saddr, first.daddr, first.proto, first.sport, first.dport,
        entry.get_attr("CTA_TIMEOUT") or 1, state,
    )  # fmt: skip


def add_flows(ports: Iterable[TrackedPort], flows: Iterable[CarriedFlow]) -> int:
    """Track the connections of a guest that has moved here. Return their number.

    Connections that do not belong to the guest, or are not valid, are ignored: the other host is not trusted. A
    connection that is tracked already is left as it is. Raises RetryableHostError.
    """
    by_network = {port.network_id: port for port in ports}
    own_flows = [(by_network[flow.network_id], flow) for flow in flows if flow.network_id in by_network]
    many = 0
    try:
        for version, family in FAMILIES.items():
            with NFCTSocket(nfgen_family=family) as tracking:
                for port, flow in own_flows:
                    if _version(flow) == version and _is_valid(port, flow):
                        many += _add(tracking, family, port.zone, flow)
    except (NetlinkError, OSError) as error:
        raise RetryableHostError("The host could not track a guest's connections.", detail=str(error)) from error
    return many


def _version(flow: CarriedFlow) -> int:
    """Return the IP version of both addresses; 0 if they are not addresses of one version, as the kernel writes
    them.
    """
    try:
        sides = [ipaddress.ip_address(text) for text in (flow.source, flow.target)]
    except ValueError:
        return 0
    plain = all(str(each) == text for each, text in zip(sides, (flow.source, flow.target), strict=True))
    return sides[0].version if plain and sides[0].version == sides[1].version else 0


def _is_valid(port: TrackedPort, flow: CarriedFlow) -> bool:
    states = TCP_STATES if flow.protocol == socket.IPPROTO_TCP else (0,)
    return (
        bool(port.addresses & {flow.source, flow.target})
        and flow.source != flow.target
        and flow.protocol in PROTOCOLS
        and flow.state in states
        and all(0 < each < 1 << 16 for each in (flow.source_port, flow.target_port))
    )


def _add(tracking: Any, family: int, zone: int, flow: CarriedFlow) -> int:
    first = NFCTAttrTuple(
        family=family, saddr=flow.source, daddr=flow.target, proto=flow.protocol, sport=flow.source_port,
        dport=flow.target_port,
    )  # fmt: skip
    details: dict[str, Any] = {}
    if flow.protocol == socket.IPPROTO_TCP:
        flags = {"value": (LIBERAL, LIBERAL)}
        tcp = [
            ["CTA_PROTOINFO_TCP_STATE", flow.state],
            ["CTA_PROTOINFO_TCP_FLAGS_ORIGINAL", flags],
            ["CTA_PROTOINFO_TCP_FLAGS_REPLY", flags],
        ]
        details["protoinfo"] = {"attrs": [["CTA_PROTOINFO_TCP", {"attrs": tcp}]]}
    try:
        tracking.entry(
            "add", tuple_orig=first, tuple_reply=first.reverse(), zone=zone,
            status=SEEN_REPLY | ASSURED | CONFIRMED, timeout=max(1, min(flow.timeout, LONGEST)), **details,
        )  # fmt: skip
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
        return 0
    return 1
