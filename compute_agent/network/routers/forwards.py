"""Port forwardings as nftables maps. A range that keeps its ports, or is forwarded to one port, needs one element.

nftables cannot add an offset to a port, so a range that is forwarded to other ports needs an element for each port; the
portal limits their number.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from compute_agent.contract.network import FloatingIpDocument, PortForward
from compute_agent.network.routers.words import nft_map
from compute_agent.virt.errors import RetryableHostError

PORTED = frozenset({"tcp", "udp", "sctp", "dccp"})
PORTLESS = frozenset({"icmp"})
ALL = "all"
LAST_PORT = 65535
KEY = "ipv4_addr . inet_service"


class RefusedForwardError(RetryableHostError):
    """A part of a floating IP cannot be applied. The traffic of this part is dropped; all other parts are applied."""


Answer = tuple[str, str, int, int]
"""Protocol, internal address, first and last internal port."""


@dataclass(frozen=True)
class Maps:
    """The target of each external port of floating IPs, by protocol: "address . ports" → target."""

    kept: dict[str, dict[str, str]] = field(default_factory=dict)
    """Ranges that keep their ports → addresses."""
    single: dict[str, dict[str, str]] = field(default_factory=dict)
    """Ranges forwarded to one port → "address . port"."""
    moved: dict[str, dict[str, str]] = field(default_factory=dict)
    """Single ports forwarded to another port."""
    portless: dict[str, dict[str, str]] = field(default_factory=dict)
    """Floating IP → address, for protocols without ports."""

    def declared(self) -> Iterator[str]:
        """Yield the declarations of the maps, for nftables."""
        for protocol, elements in sorted(self.kept.items()):
            yield from nft_map(f"kept-{protocol}", f"{KEY} : ipv4_addr", elements, ranges=True)
        for protocol, elements in sorted(self.single.items()):
            yield from nft_map(f"single-{protocol}", f"{KEY} : {KEY}", elements, ranges=True)
        for protocol, elements in sorted(self.moved.items()):
            yield from nft_map(f"moved-{protocol}", f"{KEY} : {KEY}", elements)
        for protocol, elements in sorted(self.portless.items()):
            yield from nft_map(f"portless-{protocol}", "ipv4_addr : ipv4_addr", elements)

    def rules(self) -> Iterator[str]:
        """Render the rules that translate by these maps."""
        for name in ("kept", "single", "moved"):
            for protocol in sorted(getattr(self, name)):
                yield f"    dnat ip to ip daddr . {protocol} dport map @{name}-{protocol}"
        for protocol in sorted(self.portless):
            yield f"    meta l4proto {protocol} dnat ip to ip daddr map @portless-{protocol}"


def maps_of(floating: Iterable[FloatingIpDocument]) -> Maps:
    """Return the maps of floating IPs that were validated by ``readable``."""
    maps = Maps()
    for each in floating:
        for forward in each.forwards:
            _enter(maps, each.address, forward)
    return maps


def _enter(maps: Maps, address: str, forward: PortForward) -> None:
    protocol, target = forward.protocol.lower(), forward.internal_address
    if protocol in PORTLESS:
        maps.portless.setdefault(protocol, {})[address] = target
        return
    first, last, inner = forward.external_first, forward.external_last, forward.internal_first
    if forward.internal_last == inner:
        maps.single.setdefault(protocol, {})[f"{address} . {first}-{last}"] = f"{target} . {inner}"
    elif first == inner:
        maps.kept.setdefault(protocol, {})[f"{address} . {first}-{last}"] = target
    else:
        moved = maps.moved.setdefault(protocol, {})
        moved |= {f"{address} . {port}": f"{target} . {port - first + inner}" for port in range(first, last + 1)}


def readable(
    documents: Mapping[str, FloatingIpDocument],
) -> tuple[dict[str, FloatingIpDocument], dict[str, list[str]]]:
    """Return floating IPs without their invalid parts, and the errors, both by id.

    An invalid floating IP or forwarding does not affect others of the router.
    """
    found, wrong = {}, {}
    for key, document in documents.items():
        try:
            found[key], reasons = _readable(document)
        except ValueError as error:
            reasons = [str(error)]
        if reasons:
            wrong[key] = reasons
    return found, wrong


def _readable(document: FloatingIpDocument) -> tuple[FloatingIpDocument, list[str]]:
    ipaddress.IPv4Address(document.address)
    if document.fixed_address is not None:
        ipaddress.IPv4Address(document.fixed_address)
    good: list[PortForward] = []
    wrong = []
    taken: dict[str, list[tuple[int, int]]] = {}
    for forward in document.forwards:
        try:
            first, last = _checked(forward)
        except ValueError as error:
            wrong.append(str(error))
            continue
        others = taken.setdefault(forward.protocol.lower(), [])
        if any(first <= end and last >= start for start, end in others):
            wrong.append(f"ports that another forwarding has: {forward.protocol} {first}-{last}")
            continue
        others.append((first, last))
        good.append(forward)
    return (replace(document, forwards=good) if wrong else document), wrong


def _checked(forward: PortForward) -> tuple[int, int]:
    """Return the first and the last external port of a forwarding; all ports for a protocol without ports. Raises
    ValueError.
    """
    protocol = forward.protocol.lower()
    ipaddress.IPv4Address(forward.internal_address)
    if protocol in PORTLESS:
        return 0, LAST_PORT
    if protocol not in PORTED:
        raise ValueError(f"no port forwarding for protocol {forward.protocol!r}")
    sides = (
        (forward.external_first, forward.external_last),
        (forward.internal_first, forward.internal_last),
    )
    if not all(1 <= first <= last <= LAST_PORT for first, last in sides):
        raise ValueError(f"not a range of ports: {sides}")
    outer, inner = (last - first for first, last in sides)
    if inner not in {0, outer}:
        raise ValueError(f"ranges of different lengths: {sides}")
    return sides[0]


def whole(floating: FloatingIpDocument) -> Iterator[PortForward]:
    """Yield the forwarding of all protocols of a floating IP to its fixed address, if it has one. Its protocol is
    ``ALL``.
    """
    if floating.fixed_address is not None:
        yield PortForward(ALL, 0, 0, floating.fixed_address, 0, 0)


def answers_of(forwards: Iterable[PortForward]) -> tuple[Answer, ...]:
    """Return the sources from which replies of forwarded connections come. Ranges of one address are merged."""
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for each in forwards:
        ranges.setdefault((each.protocol.lower(), each.internal_address), []).append(
            (each.internal_first, each.internal_last)
        )
    return tuple((*key, *each) for key in sorted(ranges) for each in _merged(ranges[key]))


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result
