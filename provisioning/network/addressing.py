"""Address arithmetic: ranges, allocation pools, the lowest free address and MAC addresses.  Creates no records."""

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import netaddr
from django.db.models import BigIntegerField, Exists, F, OuterRef, QuerySet, Subquery, UUIDField, Value

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import InvalidInputError
from provisioning.network.models import FixedIP, Subnet

_PREFIX = re.compile(r"(?P<address>[^/]*)(/(?P<length>[0-9]{1,3})|/(?P<mask>[0-9.]{7,15}))?", re.ASCII)
MAC_PREFIX = (0xFA, 0x16, 0x3E)
"""Neutron's base_mac; the other three bytes are random."""
SHIFT = 1 << 63
"""Subtracted from the lower 64 bits of an IPv6 address: the result fits a signed 64-bit column and keeps the order."""


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses from ``first`` to ``last`` as integers, both included."""

    first: int
    last: int

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.first <= number <= self.last


def read_address(text: object) -> netaddr.IPAddress:
    """Parse one address in full notation. Raises ValueError otherwise, also for a zone index (``fe80::1%eth0``).

    Every address in a request must be parsed here, and every range by ``read_prefix``, because the parsed value is
    stored and sent to hosts.
    """
    try:
        return netaddr.IPAddress(text if isinstance(text, str) else "", flags=netaddr.INET_PTON)
    except (netaddr.AddrFormatError, ValueError):
        raise ValueError("It is not an address.") from None


def usual_form(text: str) -> str:
    """Return an address in the form in which records store it (IPv6 by RFC 5952); other text is returned unchanged."""
    try:
        return str(read_address(text))
    except ValueError:
        return text


def read_prefix(text: object, *, loose: bool = False) -> netaddr.IPNetwork:
    """Parse a range such as 10.20.0.0/24, in which host bits may be set. Raises ValueError for everything else.

    ``loose``: also accept a single address, and a netmask instead of the prefix length.
    """
    match = _PREFIX.fullmatch(text) if isinstance(text, str) else None
    if match is None or not (loose or match["length"]):
        raise ValueError("It is not a range of addresses.")
    first, length = read_address(match["address"]), match["length"] or match["mask"]
    try:
        return netaddr.IPNetwork(f"{first}/{length}" if length else first)
    except (netaddr.AddrFormatError, ValueError):
        raise ValueError("It is not a range of addresses.") from None


def network_of(text: str) -> str:
    """Return a range without host bits: ``10.0.0.5/24`` becomes 10.0.0.0/24.

    Records store a range as it was sent; hosts and comparisons use this form.
    """
    return str(read_prefix(text, loose=True).cidr)


def parse_address(text: object, *, field: str, version: int | None = None) -> netaddr.IPAddress:
    """Parse one address. Raises InvalidInputError for ``field`` for other text and for another IP version."""
    try:
        result = read_address(text)
    except ValueError:
        raise InvalidInputError(f"'{str(text)[:64]}' is not a valid IP address.", field=field) from None
    if version is not None and result.version != version:
        msg = f"Invalid input for operation: {field} '{text}' does not match the ip_version '{version}'."
        raise InvalidInputError(msg, field=field)
    return result


def parse_range(text: object, *, field: str) -> netaddr.IPNetwork:
    """Parse a range, in which host bits may be set. Raises InvalidInputError for ``field`` if it is not one."""
    try:
        return read_prefix(text)
    except ValueError:
        raise InvalidInputError(f"'{str(text)[:64]}' is not a valid IP subnet.", field=field) from None


NOT_OF_NETWORKS = {
    4: [netaddr.IPNetwork(each) for each in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")],
    6: [netaddr.IPNetwork(each) for each in ("::/96", "::ffff:0:0/96", "fe80::/10", "ff00::/8")],
}
"""Ranges, by IP version, whose addresses no interface of a network can have (RFC 6890)."""


def _overlap(one: netaddr.IPNetwork, other: netaddr.IPNetwork) -> bool:
    return bool(one in other or other in one)


def parse_cidr(text: str) -> netaddr.IPNetwork:
    """Parse the range of a subnet: IPv4 from /8 to /30, IPv6 from /64 to /126.

    Host bits are cleared, as in Neutron. Raises InvalidInputError for ``cidr``, also for loopback, link-local,
    multicast and reserved addresses.
    """
    try:
        network = read_prefix(text).cidr
    except ValueError:
        raise InvalidInputError(f"'{text[:64]}' is not a valid range such as 10.20.0.0/24.", field="cidr") from None
    if any(_overlap(network, each) for each in NOT_OF_NETWORKS[network.version]):
        msg = f"'{text}' is not a usable range: its addresses are loopback, link-local, multicast or reserved ones."
        raise InvalidInputError(msg, field="cidr")
    shortest, longest = (8, 30) if network.version == 4 else (64, 126)
    if not shortest <= network.prefixlen <= longest:
        msg = f"'{text}' is not a usable range: the prefix must be from /{shortest} to /{longest}."
        raise InvalidInputError(msg, field="cidr")
    return network


def hosts_of(network: netaddr.IPNetwork) -> Range:
    """Return the addresses of a range that interfaces may have.

    The first address is excluded (in IPv4 the network address, in IPv6 the routers' anycast address), and in IPv4 the
    broadcast address.
    """
    return Range(int(network.first) + 1, int(network.last) - (1 if network.version == 4 else 0))


def number_of(subnet: Subnet, address: str) -> int:
    """Return the number that ``FixedIP.number`` stores for an address; the next address has the next number."""
    return int(netaddr.IPAddress(address)) - _base(subnet.cidr)


def address_of(subnet: Subnet, number: int) -> str:
    """Return the address of a ``FixedIP.number``."""
    return str(netaddr.IPAddress(number + _base(subnet.cidr), version=subnet.ip_version))


def _base(cidr: str) -> int:
    if ":" not in cidr:
        return 0
    first = int(netaddr.IPNetwork(cidr).first)
    return (first >> 64 << 64) + SHIFT


def without(ranges: Iterable[Range], taken: Iterable[int]) -> list[Range]:
    """Return the ranges in order, without the given numbers."""
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


def as_pools(ranges: Iterable[Range], version: int) -> list[dict[str, str]]:
    """Return ranges in the format of Neutron's ``allocation_pools``."""
    return [
        {
            "start": str(netaddr.IPAddress(part.first, version=version)),
            "end": str(netaddr.IPAddress(part.last, version=version)),
        }
        for part in ranges
    ]


def read_pools(pools: Iterable[Mapping[str, str]]) -> list[Range]:
    """Return stored allocation pools as ranges; they were validated when they were written."""
    return [Range(int(netaddr.IPAddress(pool["start"])), int(netaddr.IPAddress(pool["end"]))) for pool in pools]


def size_of(pools: Iterable[Mapping[str, str]]) -> int:
    """Return the total number of addresses in allocation pools."""
    return sum(part.last - part.first + 1 for part in read_pools(pools))


def reserved_numbers(subnet: Subnet) -> set[int]:
    """Return the addresses of the gateway and of DHCP, as integers: no guest may have them."""
    return {int(netaddr.IPAddress(text)) for text in (subnet.gateway_ip, subnet.dhcp_address) if text}


def is_reserved(subnet: Subnet, address: str) -> bool:
    """Whether an address is the gateway's, DHCP's, the first of the range or the broadcast address of IPv4."""
    whole, number = netaddr.IPNetwork(subnet.cidr), int(netaddr.IPAddress(address))
    return number in {*reserved_numbers(subnet), int(whole.first), *([int(whole.last)] if whole.version == 4 else [])}


def lowest_free(subnet: Subnet) -> str | None:
    """Return the lowest free address of the allocation pools, or None; one query for each pool.

    Released addresses that are still held are not free. A concurrent request may get the same address; the constraint
    ``one_fixed_ip`` rejects the second insert.
    """
    base = _base(subnet.cidr)
    for part in without(read_pools(subnet.allocation_pools), reserved_numbers(subnet)):
        first, last = part.first - base, part.last - base
        ((first_taken, following),) = _GAP(subnet=subnet.pk, first=first, last=last)
        free = following if first_taken else first
        if free is not None:
            return address_of(subnet, int(free))
    return None


def highest_free(subnet: Subnet) -> str | None:
    """Return the highest free address of the allocation pools, or None; for ports that the cloud itself creates."""
    taken = FixedIP.every.filter(subnet=subnet).values_list("number", flat=True).order_by("-number")
    base = _base(subnet.cidr)
    for part in reversed(without(read_pools(subnet.allocation_pools), reserved_numbers(subnet))):
        first, free = part.first - base, part.last - base
        if not _TAKEN(subnet=subnet.pk, number=free):
            return address_of(subnet, free)
        for number in taken.filter(number__gte=first, number__lte=free).iterator():
            if number != free:
                break
            free -= 1
        if free >= first:
            return address_of(subnet, free)
    return None


_TAKEN = Prepared(
    lambda subnet, number: FixedIP.every.filter(subnet_id=subnet, number=number).values_list("id", flat=True),
    subnet=UUIDField(),
    number=BigIntegerField(),
)


def _gap(subnet: Value, first: Value, last: Value) -> QuerySet[Subnet, Any]:
    """Return a query for the lowest free address of a range.

    Its row has two columns: whether the first address is in use, and the lowest free address after an address in use.
    """
    used = FixedIP.every.filter(subnet_id=subnet)
    behind = (
        used.filter(number__gte=first, number__lt=last)
        .annotate(next=F("number") + 1)
        .filter(~Exists(used.filter(number=OuterRef("next"))))
        .order_by("number")
        .values("next")[:1]
    )
    return Subnet.objects.filter(pk=subnet).values_list(Exists(used.filter(number=first)), Subquery(behind))


_GAP = Prepared(_gap, subnet=UUIDField(), first=BigIntegerField(), last=BigIntegerField())


def place_of(subnets: Iterable[Subnet], text: str) -> tuple[Subnet, str]:
    """Return the subnet that contains a requested address, and the address in the form of the records.

    Raises InvalidInputError for ``networks`` if no subnet contains the address or if the address is reserved.
    """
    requested = parse_address(text, field="networks")
    for subnet in subnets:
        whole = netaddr.IPNetwork(subnet.cidr)
        if requested not in whole:
            continue
        if int(requested) in reserved_numbers(subnet) or int(requested) not in hosts_of(whole):
            msg = f"Fixed IP address {text} is reserved on its subnet: it is the gateway's, DHCP's or the range's own."
            raise InvalidInputError(msg, field="networks")
        return subnet, str(requested)
    msg = f"Fixed IP address {text} is not a valid IP address for any of the subnets of the network."
    raise InvalidInputError(msg, field="networks")


def overlapping(network: netaddr.IPNetwork, subnets: Iterable[Subnet]) -> Subnet | None:
    """Return the first subnet whose range overlaps this one, or None."""
    for subnet in subnets:
        other = netaddr.IPNetwork(subnet.cidr)
        if network.version == other.version and network.first <= other.last and other.first <= network.last:
            return subnet
    return None


def random_mac() -> str:
    """Return a MAC address with Neutron's prefix, lower case with colons."""
    return ":".join(f"{byte:02x}" for byte in (*MAC_PREFIX, *secrets.token_bytes(3)))
