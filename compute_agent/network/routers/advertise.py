"""Router advertisements (RFC 4861): dnsmasq in a router's namespace sends guests their prefix and their gateway.

A router advertises a subnet only if it has the subnet's gateway address. Other projects may connect a router to a
shared network at another address, and guests must not use such a router as their gateway.

The advertisement states whether guests also use DHCPv6. The network's own server answers DHCPv6; the router's filters
drop it.
"""

import ipaddress
import shutil
import signal
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from compute_agent.contract.build import SubnetRef
from compute_agent.contract.network import NetworkDocument
from compute_agent.network.dhcp.dhcp_config import DhcpUser
from compute_agent.network.kernel.announcing import announce
from compute_agent.network.routers.records import Leg
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.processes.processes import collect, is_ours, kill, read_pid
from compute_agent.virt.processes.programs import ProgramError, run_program
from compute_agent.virt.processes.rights import OF_DNSMASQ

MODES = {"slaac": "ra-only", "dhcpv6-stateless": "ra-stateless", "dhcpv6-stateful": "static"}
"""Neutron's ``ipv6_ra_mode`` → dnsmasq's mode."""
INTERVAL, LIFETIME = 60, 1800
"""Seconds between two advertisements, and seconds for which a guest keeps its gateway without another advertisement."""

TIMES = 3
"""Number of announcements of a new address."""

Inside = Callable[[str, Callable[[], None]], None]
"""Runs work in the namespace with this name."""


class Advertiser:
    """dnsmasq for one router, with its files in ``folder``."""

    def __init__(self, folder: Path, user: DhcpUser | None = None) -> None:
        """The folder is created by the first advertisement."""
        self._folder = folder
        self._user = user or DhcpUser()

    def ensure(self, config: str) -> None:
        """Run dnsmasq with this configuration, in the calling thread's namespace. Stop it if the configuration is
        empty.
        """
        if not config:
            self.stop()
            return
        path = self._folder / "dnsmasq.conf"
        pid = self.running()
        if pid is not None:
            if path.exists() and path.read_text() == self._completed(config) and _is_here(pid):
                return
            self._end()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(self._completed(config))
        try:
            run_program("dnsmasq", f"--conf-file={path}", rights=OF_DNSMASQ)
        except ProgramError as error:
            raise RetryableHostError("The host could not advertise a router.", detail=str(error)) from error

    def running(self) -> int | None:
        """Return dnsmasq's process id; None if it does not run."""
        pid = read_pid(self._folder / "dnsmasq.pid")
        if pid is None or is_ours(pid, [self._folder]):
            return pid
        collect(pid)
        return None

    def stop(self) -> bool:
        """Stop dnsmasq and remove its files. Return whether it ran."""
        stopped = self._end()
        shutil.rmtree(self._folder, ignore_errors=True)
        return stopped

    def _end(self) -> bool:
        pid = self.running()
        return pid is not None and kill(pid, signal.SIGTERM)

    def _completed(self, config: str) -> str:
        return (
            f"pid-file={self._folder}/dnsmasq.pid\ndhcp-leasefile={self._folder}/leases\n"
            f"user={self._user.name}\ngroup={self._user.group}\n{config}"
        )


def folder_of(network: Path) -> Path:
    """Return the folder of routers' files in an agent's network folder."""
    return network / "routers"


def _is_here(pid: int) -> bool:
    """Return whether a process is in the calling thread's network namespace. Return False if the router's namespace was
    recreated after the start of the process.
    """
    try:
        return Path(f"/proc/{pid}/ns/net").samefile("/proc/thread-self/ns/net")
    except OSError:
        return False


def stop_advertisers(network: Path) -> list[str]:
    """Stop every advertiser of an agent. Return the ids of their routers."""
    paths = sorted(path for path in folder_of(network).glob("*-*") if path.is_dir())
    return [path.name for path in paths if Advertiser(path).stop()]


def configuration(pairs: list[tuple[Leg, NetworkDocument]]) -> str:
    """Render a router's advertisements on its networks; empty if no subnet needs them.

    Raises ValueError for an invalid address.
    """
    lines = [line for leg, network in pairs for line in _lines(leg, network)]
    if not lines:
        return ""
    general = ["port=0", "bind-interfaces", "except-interface=lo", "enable-ra", "quiet-ra", "quiet-dhcp6",
               "log-facility=/dev/null", *lines]  # fmt: skip
    return "".join(f"{line}\n" for line in general)


def _lines(leg: Leg, network: NetworkDocument) -> Iterator[str]:
    subnets = [each for each in network.subnets if each.ipv6_ra_mode in MODES and _advertised(leg, each)]
    if not subnets:
        return
    yield f"interface={leg.name}"
    yield f"ra-param={leg.name},mtu:{network.mtu},{INTERVAL},{LIFETIME}"
    for subnet in subnets:
        prefix = ipaddress.IPv6Network(subnet.cidr)
        tag = f"s{prefix.network_address.packed.hex()}"
        yield f"dhcp-range=set:{tag},{prefix.network_address},{MODES[subnet.ipv6_ra_mode]},{prefix.prefixlen}"
        servers = subnet.dns_nameservers or (network.service.addresses if network.service else [])
        addresses = [address for address in map(ipaddress.ip_address, servers) if not address.is_unspecified]
        six = [f"[{address}]" for address in addresses if address.version == 6]
        if six:
            yield f"dhcp-option=tag:{tag},option6:dns-server,{','.join(six)}"


def _advertised(leg: Leg, subnet: SubnetRef) -> bool:
    return ":" in subnet.cidr and subnet.gateway is not None and leg.has(subnet.gateway)


class Announcements:
    """Announces new addresses immediately, and again with the next checks, in case packets were lost.

    An address that has moved to another host is no longer announced here.
    """

    def __init__(self) -> None:
        self._left: dict[tuple[str, str, str], dict[str, int]] = {}
        """Namespace, interface and MAC address → remaining announcements of each address."""

    def add(self, inside: Inside, space: str, leg: Leg, addresses: frozenset[str]) -> None:
        """Announce these addresses on a leg of the namespace ``space``."""
        if addresses:
            inside(space, lambda: announce(leg.name, leg.mac, addresses))
            self._left.setdefault((space, leg.name, leg.mac), {}).update(dict.fromkeys(addresses, TIMES - 1))

    def keep_only(self, space: str, interface: str, addresses: Collection[str]) -> None:
        """Stop announcing all addresses on this interface except ``addresses``: other addresses are no longer on this
        host.
        """
        for (name, on, _), left in self._left.items():
            if (name, on) == (space, interface):
                for gone in left.keys() - set(addresses):
                    del left[gone]

    def keep_only_spaces(self, spaces: Collection[str]) -> None:
        """Discard announcements of other namespaces, which no longer exist."""
        self._left = {key: left for key, left in self._left.items() if key[0] in spaces}

    def again(self, inside: Inside) -> None:
        """Repeat announcements that were not sent ``TIMES`` times."""
        for key, left in list(self._left.items()):
            space, name, mac = key
            addresses = frozenset(left)
            self._left[key] = {address: times - 1 for address, times in left.items() if times > 1}
            if not self._left[key]:
                del self._left[key]
            if not addresses:
                continue
            try:
                inside(space, lambda name=name, mac=mac, addresses=addresses: announce(name, mac, addresses))  # type: ignore[misc]
            except RetryableHostError:  # deleted
                self._left.pop(key, None)
