"""Address arithmetic: pools, gateways, the lowest free address, MAC addresses.  Knows numbers, makes no records."""

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import netaddr
from django.db.models import BigIntegerField, Exists, F, OuterRef, QuerySet, Subquery, UUIDField, Value

from provisioning.common.errors import InvalidInputError
from provisioning.common.prepared import Prepared
from provisioning.network.models import FixedIP, Subnet

CIDR = re.compile(r"(?P<address>[0-9.]{7,15})/(?P<prefix>[0-9]{1,2})")
MAC_PREFIX = (0xFA, 0x16, 0x3E)
"""Neutron's base_mac; the three bytes behind it are random."""


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses from ``first`` to ``last`` as numbers, both included."""

    first: int
    last: int


def parse_address(text: str, *, field: str) -> netaddr.IPAddress:
    """Read one IPv4 address in its usual four-part form; anything else raises InvalidInputError for ``field``."""
    try:
        return netaddr.IPAddress(text, version=4, flags=netaddr.INET_PTON)
    except (netaddr.AddrFormatError, ValueError, TypeError):
        raise InvalidInputError(f"'{text}' is not a valid IPv4 address.", field=field) from None


def parse_cidr(text: str) -> netaddr.IPNetwork:
    """Read an IPv4 range that has room for a gateway and a guest (/8 to /29); raises InvalidInputError for ``cidr``."""
    parts = CIDR.fullmatch(text)
    if parts is None or int(parts["prefix"]) > 32:
        raise InvalidInputError(f"'{text}' is not a valid IPv4 range such as 10.20.0.0/24.", field="cidr")
    network = netaddr.IPNetwork((int(parse_address(parts["address"], field="cidr")), int(parts["prefix"])))
    if network.ip != network.network:
        msg = f"'{text}' is not a valid range: its address has bits beyond the prefix; {network.cidr} is meant."
        raise InvalidInputError(msg, field="cidr")
    if not 8 <= network.prefixlen <= 29:
        raise InvalidInputError(f"'{text}' is not a usable range: the prefix must be from /8 to /29.", field="cidr")
    return network


def hosts_of(network: netaddr.IPNetwork) -> Range:
    """Return the addresses that a machine may have: all but the network's own and the broadcast address."""
    return Range(int(network.first) + 1, int(network.last) - 1)


def without(ranges: Iterable[Range], taken: Iterable[int]) -> list[Range]:
    """Return the ranges with single numbers cut out of them, in order."""
    result = sorted(ranges, key=lambda part: part.first)
    for number in sorted(set(taken)):
        cut: list[Range] = []
        for part in result:
            if not part.first <= number <= part.last:
                cut.append(part)
                continue
            if part.first < number:
                cut.append(Range(part.first, number - 1))
            if number < part.last:
                cut.append(Range(number + 1, part.last))
        result = cut
    return result


def as_pools(ranges: Iterable[Range]) -> list[dict[str, str]]:
    """Write ranges the way Neutron shows allocation pools."""
    return [
        {"start": str(netaddr.IPAddress(part.first, 4)), "end": str(netaddr.IPAddress(part.last, 4))} for part in ranges
    ]


def read_pools(pools: Iterable[Mapping[str, str]]) -> list[Range]:
    """Read allocation pools that were checked when they were written."""
    return [Range(int(netaddr.IPAddress(pool["start"])), int(netaddr.IPAddress(pool["end"]))) for pool in pools]


def reserved_numbers(subnet: Subnet) -> set[int]:
    """Return the addresses of a subnet that no guest may have: the gateway's and DHCP's."""
    return {int(netaddr.IPAddress(text)) for text in (subnet.gateway_ip, subnet.dhcp_address) if text}


def lowest_free(subnet: Subnet) -> int | None:
    """Return the lowest free address of the pools as a number, or None; the database looks, one query a pool.

    The answer is a proposal: the insert protected by ``one_fixed_ip`` decides.
    """
    for part in without(read_pools(subnet.allocation_pools), reserved_numbers(subnet)):
        ((first_taken, following),) = _GAP(subnet=subnet.pk, first=part.first, last=part.last)
        free = following if first_taken else part.first
        if free is not None:
            return int(free)
    return None


def _gap(subnet: Value, first: Value, last: Value) -> QuerySet[Subnet, Any]:
    """Ask whether the first address of a range is taken, and which is the lowest free one behind a taken one."""
    used = FixedIP.objects.filter(subnet_id=subnet)
    behind = (
        used.filter(number__gte=first, number__lt=last)
        .annotate(next=F("number") + 1)
        .filter(~Exists(used.filter(number=OuterRef("next"))))
        .order_by("number")
        .values("next")[:1]
    )
    return Subnet.objects.filter(pk=subnet).values_list(Exists(used.filter(number=first)), Subquery(behind))


_GAP = Prepared(_gap, subnet=UUIDField(), first=BigIntegerField(), last=BigIntegerField())


def place_of(subnets: Iterable[Subnet], text: str) -> tuple[Subnet, int]:
    """Return the subnet that a wanted address lies in, and its number; a guest may have any address but reserved ones.

    Raises InvalidInputError for ``networks``.
    """
    number = int(parse_address(text, field="networks"))
    for subnet in subnets:
        whole = netaddr.IPNetwork(subnet.cidr)
        hosts = hosts_of(whole)
        if number in reserved_numbers(subnet) or number in {int(whole.first), int(whole.last)}:
            msg = f"Fixed IP address {text} is reserved on its subnet: it is the gateway's, DHCP's or the range's own."
            raise InvalidInputError(msg, field="networks")
        if hosts.first <= number <= hosts.last:
            return subnet, number
    msg = f"Fixed IP address {text} is not a valid IP address for any of the subnets of the network."
    raise InvalidInputError(msg, field="networks")


def overlapping(network: netaddr.IPNetwork) -> Subnet | None:
    """Return a subnet whose range shares an address with this one, or None."""
    for subnet in Subnet.objects.filter(ip_version=4).only("id", "cidr", "network_id"):
        other = netaddr.IPNetwork(subnet.cidr)
        if network.first <= other.last and other.first <= network.last:
            return subnet
    return None


def random_mac() -> str:
    """Return a MAC address with Neutron's prefix, lower case with colons."""
    return ":".join(f"{byte:02x}" for byte in (*MAC_PREFIX, *secrets.token_bytes(3)))


def as_text(number: int) -> str:
    """Return the dotted form of an IPv4 address."""
    return str(netaddr.IPAddress(number, 4))
