"""Configuration of dnsmasq: ranges and options of a network, fixed addresses of its interfaces, and names."""

import functools
import grp
import ipaddress
import logging
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import DhcpOption, PortRef, SubnetRef
from compute_agent.virt.processes.programs import SYSTEM_PATH

log = logging.getLogger(__name__)

LABEL = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$")
DOMAIN = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")
MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")
OPTION_NAME = re.compile(r"^[A-Za-z0-9+-]{1,64}$")
RESERVED = frozenset(
    {
        "localhost", "localdomain", "broadcasthost", "gateway", "router", "dhcp", "dns", "ns", "ntp", "time",
        "metadata", "instance-data", "wpad", "isatap", "autodiscover",
    }
)  # fmt: skip
"""Names that programs look up automatically, or that denote the network. They are never served as names of guests."""
LEASE = "86400"
"""Seconds; long, because addresses are fixed."""
METADATA = "169.254.169.254"
FROM_DHCP = ("", "dhcpv6-stateful")
"""IPv6 address modes in which DHCP assigns addresses; in the others guests derive them from router advertisements."""
TEST_SECONDS = 10.0
SCRIPT, SAID = "on-lease", "said"
"""The script that dnsmasq runs for each lease, and the file to which it appends events."""

AUTO = "auto"
KNOWN = ("novella-dhcp", "dnsmasq", "nobody")
"""Accounts that ``auto`` looks for: the one that bin/up creates, the distribution's own, and dnsmasq's default."""


@dataclass(frozen=True)
class DhcpUser:
    """A user and its primary group, by the names that dnsmasq looks up. It is not root on a host, because dnsmasq
    parses packets from guests.
    """

    name: str = "root"
    group: str = "root"
    gid: int = 0


def choose(configured: str) -> DhcpUser:
    """Return the account with this name; for ``auto``, the first known one that exists. Raises ValueError if there is
    none.
    """
    for name in KNOWN if configured == AUTO else (configured,):
        try:
            gid = pwd.getpwnam(name).pw_gid
            return DhcpUser(name, grp.getgrgid(gid).gr_name, gid)
        except KeyError:
            continue
    raise ValueError(f"there is no user {configured!r} with a group for dnsmasq")


@dataclass(frozen=True)
class Lease:
    """One interface's fixed addresses and options."""

    mac: str
    addresses: tuple[str, ...]
    """At most one IPv4 address."""
    hostname: str
    domain: str = ""
    """On a network that several projects use: the domain of the guest's name, which is also the guest's search domain.
    Empty otherwise.
    """
    options: tuple[DhcpOption, ...] = ()

    @property
    def tag(self) -> str:
        return "m" + self.mac.replace(":", "")


@dataclass(frozen=True)
class Name:
    """A host name, and the addresses that it resolves to."""

    hostname: str
    addresses: tuple[str, ...]
    domain: str = ""
    """The domain of the guest's name, as in ``Lease``."""


@dataclass(frozen=True)
class Served:
    """The data of a network that its DHCP and name server serves."""

    interface: str
    addresses: tuple[str, ...]
    """The server's own addresses, at most one in each subnet."""
    mtu: int
    domain: str
    subnets: Sequence[SubnetRef]
    leases: Sequence[Lease]
    names: Sequence[Name]
    upstream: tuple[str, ...] = ()
    """Name servers that queries are forwarded to."""
    metadata: bool = True
    """Whether guests get a route to the metadata service here."""
    namespace: str | None = None
    """The server's network namespace; None: the agent's."""

    def own(self, subnet: SubnetRef) -> str | None:
        """Return the server's address in the subnet; None if it has none."""
        network = ipaddress.ip_network(subnet.cidr)
        return next((each for each in self.addresses if ipaddress.ip_address(each) in network), None)

    def serves(self) -> list[SubnetRef]:
        """Return the subnets with DHCP."""
        return [subnet for subnet in self.subnets if subnet.enable_dhcp and self.own(subnet) is not None]


def leases_of(named_ports: Iterable[tuple[str, PortRef]], subnets: Sequence[SubnetRef] = ()) -> list[Lease]:
    """Return the fixed leases of one network, in a stable order. Raises ValueError for invalid addresses.

    ``named_ports``: each interface with its guest's host name.
    """
    ranged = {subnet.id for subnet in subnets if subnet.ipv6_address_mode not in FROM_DHCP}
    result = {}
    for hostname, port in named_ports:
        addresses: list[str] = []
        for fixed in port.fixed_ips:
            parsed = ipaddress.ip_address(fixed.address)
            first = parsed.version == 6 or not any(":" not in each for each in addresses)
            if fixed.enable_dhcp and first and fixed.subnet_id not in ranged:
                addresses.append(str(parsed))
        if port.dns_domain and not DOMAIN.fullmatch(port.dns_domain):
            raise ValueError(f"not a domain: {port.dns_domain!r}")
        mac = checked_mac(port)
        if addresses and mac not in result:
            options = tuple(option for option in port.extra_dhcp_opts if usable(option))
            result[mac] = Lease(mac, tuple(addresses), served_name(hostname), port.dns_domain, options)
    return sorted(result.values(), key=lambda lease: lease.mac)


def checked_mac(port: PortRef) -> str:
    """Return the port's MAC address in lower case; raises ValueError if it is invalid."""
    mac = port.mac_address.lower()
    if not MAC.fullmatch(mac):
        raise ValueError(f"not a hardware address: {port.mac_address!r}")
    return mac


def served_name(hostname: str) -> str:
    """Return the name if it may be served for a guest, else an empty string."""
    return hostname if LABEL.fullmatch(hostname) and hostname.lower() not in RESERVED else ""


def usable(option: DhcpOption) -> bool:
    """Return whether dnsmasq accepts the option. An unknown option would prevent its start."""
    if not OPTION_NAME.fullmatch(option.name) or not option.value.isprintable():
        return False
    if not _understood(_option_line(option)):
        log.warning("DHCP option %s=%s is left out: dnsmasq does not accept it", option.name, option.value)
        return False
    return True


def config(served: Served, folder: Path, shown: Path, user: DhcpUser) -> str:
    """Return dnsmasq's configuration. ``shown`` is the folder of files that dnsmasq's user reads. Raises ValueError."""
    if not DOMAIN.fullmatch(served.domain):
        raise ValueError(f"a domain that cannot be served: {served.domain!r}")
    lines = [
        f"# answers at {' '.join(served.addresses)}",
        f"interface={served.interface}", "bind-interfaces", "except-interface=lo",
        f"pid-file={folder}/dnsmasq.pid", f"user={user.name}", f"group={user.group}",
        "log-facility=/dev/null", "quiet-dhcp", "quiet-dhcp6", "quiet-ra",
        *_ranges(served), *_marks(served), "dhcp-authoritative", "no-ping", "dhcp-lease-max=65536", "dhcp-ignore-names",
        f"dhcp-hostsfile={shown}/hosts", f"dhcp-optsfile={shown}/options", f"dhcp-leasefile={folder}/leases",
        f"dhcp-script={shown}/{SCRIPT}", f"dhcp-scriptuser={user.name}",
        f"dhcp-option-force=26,{served.mtu}",
        "no-hosts", "no-resolv", "domain-needed", f"addn-hosts={shown}/names",
        f"domain={served.domain}", f"local=/{served.domain}/", "bogus-priv", "stop-dns-rebind",
        *(f"server={server}" for server in served.upstream),
    ]  # fmt: skip
    return "".join(line + "\n" for line in lines)


def script(shown: Path) -> str:
    """Return the script that dnsmasq runs for each lease event. It appends a line to a file of at most 64 KiB."""
    return f"""#!/bin/sh
ulimit -f 128
case $1 in
add | old | del) printf '%s %s\\n' "$1" "$3" >>{shown}/{SAID} ;;
esac
"""


def _marks(served: Served) -> Iterator[str]:
    """Yield the lines that tag interfaces with options of their own.

    The tags are not in the lease file, because dnsmasq 2.90 crashes when it reads a file again in which an active lease
    sets a tag.
    """
    for lease in served.leases:
        if lease.domain or lease.options:
            yield f"dhcp-mac=set:{lease.tag},{lease.mac}"


def hosts(served: Served) -> str:
    """Return the leases. The name of a guest with its own domain is sent as an option, because dnsmasq would otherwise
    serve it to all guests.
    """
    lines = []
    for lease in served.leases:
        addresses = [f"[{each}]" if ":" in each else each for each in lease.addresses]
        name = "" if lease.domain else lease.hostname
        lines.append(",".join(filter(None, (lease.mac, *addresses, name))) + "\n")
    return "".join(lines)


def options(served: Served) -> str:
    """Return the DHCP options: those of subnets first, then those of single interfaces."""
    lines = [line for subnet in served.serves() for line in _subnet_options(served, subnet)]
    for lease in served.leases:
        if lease.domain:
            lines.append(f"tag:{lease.tag},option:domain-name,{lease.domain}")
            if lease.hostname:  # dnsmasq has no name for this option
                lines.append(f"tag:{lease.tag},12,{lease.hostname}")
        lines += [f"tag:{lease.tag},{_option_line(option)}" for option in lease.options]
    return "".join(line + "\n" for line in lines)


def names(served: Served) -> str:
    """Return the names of the network's guests, in the format of ``/etc/hosts``."""
    lines = []
    for name in served.names:
        both = f"{name.hostname}.{name.domain}" if name.domain else f"{name.hostname}.{served.domain} {name.hostname}"
        lines += [f"{address} {both}\n" for address in name.addresses]
    return "".join(lines)


def _ranges(served: Served) -> Iterator[str]:
    """Yield the ranges, for fixed addresses only. For an IPv6 range without a router, this server sends the
    advertisements.
    """
    advertises = False
    for subnet in served.serves():
        network = ipaddress.ip_network(subnet.cidr)
        start, tag = network.network_address, _tag(subnet)
        if network.version == 4:
            yield f"dhcp-range=set:{tag},{start},static,{network.netmask},{LEASE}"
            continue
        announced = bool(subnet.ipv6_ra_mode) and not subnet.routed
        advertises |= announced
        if subnet.ipv6_address_mode == "slaac":
            if announced:
                yield f"dhcp-range=set:{tag},{start},ra-only,{network.prefixlen},{LEASE}"
        elif subnet.ipv6_address_mode == "dhcpv6-stateless" and announced:
            yield f"dhcp-range=set:{tag},{start},ra-stateless,{network.prefixlen},{LEASE}"
        else:
            yield f"dhcp-range=set:{tag},{start},static,{network.prefixlen},{LEASE}"
    if advertises:  # never as a default router: routers advertise themselves
        yield "enable-ra"
        yield f"ra-param={served.interface},mtu:{served.mtu},60,0"


def _subnet_options(served: Served, subnet: SubnetRef) -> Iterator[str]:
    tag, own = f"tag:{_tag(subnet)}", served.own(subnet)
    specified = [ipaddress.ip_address(server) for server in subnet.dns_nameservers]
    network = ipaddress.ip_network(subnet.cidr)
    servers = [each for each in specified if each.version == network.version] or [ipaddress.ip_address(str(own))]
    addresses = [str(each) for each in servers if not each.is_unspecified]  # without values, the option is left out
    if network.version == 6:
        yield ",".join([tag, "option6:dns-server", *(f"[{server}]" for server in addresses)])
        yield f"{tag},option6:domain-search,{served.domain}"
        return
    gateway = str(ipaddress.IPv4Address(subnet.gateway)) if subnet.gateway else ""
    yield f"{tag},option:router,{gateway}".rstrip(",")
    yield ",".join([tag, "option:dns-server", *addresses])
    routes = [(route.destination, route.next_hop) for route in subnet.host_routes]
    if served.metadata:
        routes.append((f"{METADATA}/32", str(own)))
        routes += [(each.cidr, "0.0.0.0") for each in served.subnets if each.id != subnet.id]  # noqa: S104 (on-link)
    checked = [(ipaddress.ip_network(to, strict=False), ipaddress.ip_address(via)) for to, via in routes]
    words = [f"{to},{via}" for to, via in checked if to.version == via.version == 4]
    if words:  # a client that accepts routes ignores the router option (RFC 3442)
        listed = ",".join([*words, *([f"0.0.0.0/0,{gateway}"] if gateway else [])])
        yield f"{tag},option:classless-static-route,{listed}"
        yield f"{tag},249,{listed}"


def _option_line(option: DhcpOption) -> str:
    """Return an option in dnsmasq's syntax; an option with an empty value is not sent."""
    family = "option6" if option.ip_version == 6 else "option"
    word = option.name if option.name.isdecimal() and option.ip_version == 4 else f"{family}:{option.name}"
    return ",".join([word, *filter(None, [option.value])])


@functools.lru_cache(maxsize=4096)
def _understood(line: str) -> bool:
    program = shutil.which("dnsmasq", path=SYSTEM_PATH)
    if program is None:
        return False
    done = subprocess.run(  # noqa: S603
        [program, "--test", "--conf-file=-"], input=f"dhcp-option=tag:x,{line}\n".encode(), capture_output=True,
        timeout=TEST_SECONDS, check=False,
    )  # fmt: skip
    return done.returncode == 0


def _tag(subnet: SubnetRef) -> str:
    return "s" + re.sub(r"[^0-9A-Za-z]", "", subnet.id)
