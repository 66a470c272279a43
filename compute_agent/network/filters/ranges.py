"""Ranges of address groups, merged into nft sets. A rule refers to one set, however many ranges it has."""

import bisect
import functools
import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compute_agent.contract.network import SecurityGroupDocument
from compute_agent.network.filters.tables import Elements

EVERYTHING = {4: "0.0.0.0/0", 6: "::/0"}
FAMILIES = {4: "ip", 6: "ip6"}


@dataclass(frozen=True)
class Ranges:
    """Merged ranges. Equal ranges have the same ``key`` and share a set."""

    key: str
    v4: tuple[str, ...]
    v6: tuple[str, ...]

    def of(self, version: int) -> tuple[str, ...]:
        return self.v4 if version == 4 else self.v6

    def match(self, version: int, side: str) -> list[str]:
        """Return nft's match of an address (``side``: saddr, daddr) in these ranges; empty if they cover everything."""
        if EVERYTHING[version] in self.of(version):
            return []
        return [f"{FAMILIES[version]} {side} @{self._set(version)}"]

    def sets(self) -> dict[str, Elements]:
        """Return the sets that ``match`` refers to."""
        return {
            self._set(version): Elements(kind, dict.fromkeys(self.of(version), ""), flags="interval")
            for version, kind in ((4, "ipv4_addr"), (6, "ipv6_addr"))
            if EVERYTHING[version] not in self.of(version)
        }

    def holds(self, address: str) -> bool:
        """Return whether an address is in one of the ranges."""
        parsed = ipaddress.ip_address(address)
        firsts, lasts = self._bounds[parsed.version]
        at = bisect.bisect_right(firsts, int(parsed)) - 1
        return at >= 0 and int(parsed) <= lasts[at]

    @functools.cached_property
    def _bounds(self) -> Mapping[int, tuple[list[int], list[int]]]:
        """First and last addresses by IP version, in order."""
        result = {}
        for version in (4, 6):
            networks = [ipaddress.ip_network(each) for each in self.of(version)]
            result[version] = (
                [int(each.network_address) for each in networks],
                [int(each.broadcast_address) for each in networks],
            )
        return result

    def _set(self, version: int) -> str:
        return f"ranges{version}-{self.key}"


def of(document: SecurityGroupDocument) -> Mapping[str, Ranges]:
    """Return the ranges of a security group's address groups, by id; groups with invalid ranges are omitted."""
    result = {}
    for group in document.address_groups:
        try:
            result[group.id] = _merged(tuple(group.addresses))
        except ValueError:
            continue
    return result


@functools.lru_cache(maxsize=1 << 10)
def _merged(addresses: tuple[str, ...]) -> Ranges:
    parsed = [ipaddress.ip_network(each, strict=False) for each in addresses]
    v4 = _texts(ipaddress.collapse_addresses(each for each in parsed if isinstance(each, ipaddress.IPv4Network)))
    v6 = _texts(ipaddress.collapse_addresses(each for each in parsed if isinstance(each, ipaddress.IPv6Network)))
    return Ranges(hashlib.sha256(" ".join((*v4, *v6)).encode()).hexdigest()[:32], v4, v6)


def _texts(networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> tuple[str, ...]:
    return tuple(str(each.network_address) if each.num_addresses == 1 else str(each) for each in networks)
