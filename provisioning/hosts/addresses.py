"""Addresses at which hosts reach each other, validated before other hosts receive them.

Other hosts send guests' packets to such an address, so a host must not claim another machine's address.
"""

import ipaddress
import logging
import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Exists, OuterRef, Q

from provisioning.common.values.text import one_line
from provisioning.hosts.models import Host

log = logging.getLogger(__name__)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
NO_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


@dataclass(frozen=True)
class Recorded:
    """Result of recording a reported address."""

    moved: bool = False
    warnings: tuple[str, ...] = ()
    """Reasons for refusing the address, for operators."""


def record(host_id: uuid.UUID, reported: str, link: str) -> Recorded:
    """Record the address at which other hosts reach this host; if it is refused, the recorded address stays.

    ``link`` is the source address of the agent's connection, empty if unknown. With ``HOST_NETWORKS`` set, the address
    must be in one of these networks; otherwise the first address is accepted, and a later one must equal ``link``. An
    address must be unicast, of the other hosts' IP version, and not recorded for another host. A loopback address is
    accepted only for a host on the portal's machine; several such hosts share it.
    """
    host = Host.objects.filter(id=host_id).only("name", "host_ip").first()
    if host is None or not reported:
        return Recorded()
    try:
        address = usable(reported)
        _check(host, address, link)
    except ValueError as error:
        return _refused(host, reported, str(error))
    text = str(address)
    rows = Host.objects.filter(id=host_id)
    if not address.is_loopback:
        rows = rows.filter(~Exists(Host.objects.filter(host_ip=text).exclude(id=OuterRef("id"))))
    if not rows.exclude(host_ip=text).update(host_ip=text):
        taken = not rows.exists()
        return _refused(host, reported, "another host has it") if taken else Recorded()
    return Recorded(moved=True)


def usable(text: str) -> Address:
    """Parse an address that packets can be sent to; raises ValueError."""
    if not text.isascii() or "%" in text:
        raise ValueError("it is not an IP address")
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError("it is an IPv4 address within an IPv6 address")
    if address.is_multicast or address.is_unspecified or address.is_link_local or address == NO_BROADCAST:
        raise ValueError("it is not the address of one machine")
    if isinstance(address, ipaddress.IPv4Address) and (int(address) >> 24 == 0 or int(address) >> 28 == 15):
        raise ValueError("it is not the address of one machine")
    return address


def seen_from(host: Host, other: Host | None) -> str:
    """Return the address at which ``host`` reaches ``other``; empty if unknown, or if only one of them has a loopback
    address.
    """
    if other is None or not _is_usable(other.host_ip):
        return ""
    near = not host.host_ip or _is_loopback(host.host_ip) == _is_loopback(other.host_ip)
    return other.host_ip if near else ""


def _is_usable(text: str) -> bool:
    try:
        usable(text)
    except ValueError:
        return False
    return True


def _check(host: Host, address: Address, link: str) -> None:
    """Raise ValueError for an address that this host must not have."""
    if address.is_loopback:
        if not _is_loopback(link or host.host_ip or "127.0.0.1"):
            raise ValueError("it is a loopback address, and the host is on another machine")
        return
    networks = settings.HOST_NETWORKS
    if networks:
        if not any(address in network for network in networks):
            raise ValueError("it is outside the networks of NOVELLA_HOST_NETWORKS")
    elif _is_usable(host.host_ip) and str(address) not in {host.host_ip, link}:
        raise ValueError("it differs from the recorded address and from the address of the host's link")
    others = Host.objects.exclude(id=host.id).exclude(Q(host_ip="") | Q(host_ip="::1") | Q(host_ip__startswith="127."))
    first = others.order_by("created_at", "id").values_list("host_ip", flat=True).first()
    if first is not None and (":" in first) != (address.version == 6):
        raise ValueError("the other hosts have addresses of the other IP version")


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _refused(host: Host, reported: str, why: str) -> Recorded:
    text = one_line(reported, 45)
    log.warning("The address %r that host %s reports is refused: %s.", text, host.name, why)
    kept = (
        f"the recorded address, {host.host_ip}, stays in use" if host.host_ip else "other hosts cannot reach this one"
    )
    return Recorded(warnings=(f"The reported address {text} is refused: {why}; {kept}.",))
