"""A bridge for each network, with its segment: the first layer of the host's network."""

import logging
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from compute_agent.contract.build import Frozen, PortRef, Segment
from compute_agent.contract.network import NetworkDocument
from compute_agent.network.bridges.segments import Segments, port_of
from compute_agent.network.kernel import announcing, links
from compute_agent.network.state.desired import DesiredState, Touched
from compute_agent.network.state.parts import Part, for_each
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.processes.programs import ProgramError, run_program

log = logging.getLogger(__name__)

FILTERED = Path("/proc/sys/net/bridge")
"""Exists while the kernel module br_netfilter is loaded."""
BRIDGED = tuple(f"net.bridge.bridge-nf-call-{family}" for family in ("iptables", "ip6tables", "arptables"))
"""Settings that pass bridged packets to the filters."""
UNFILTERED = (
    "This host's kernel does not show bridged packets to its filters, so guests cannot be isolated and get no"
    " network: load its module br_netfilter."
)
UNFORWARDED = "This host does not forward packets: its kernel refuses net.ipv4.ip_forward = 1."


class CreatedObjects(Frozen, frozen=True):
    """The kernel objects of a network, stored so that they can be deleted when the network's document no
    longer exists.
    """

    bridge: str
    segment: Segment


def lacks() -> list[str]:
    """Pass bridged packets to the filters and enable forwarding. Load the kernel module for bridge filtering if needed.

    Return a message for each requirement that the host does not meet.
    """
    result = []
    try:
        if not FILTERED.exists():
            run_program("modprobe", "br_netfilter")
        for name in BRIDGED:
            links.write_sysctl(name, "1")
    except (ProgramError, subprocess.SubprocessError, RetryableHostError) as error:
        log.warning("no filters for bridged packets: %s", getattr(error, "detail", "") or error)
        result.append(UNFILTERED)
    try:
        links.write_sysctl("net.ipv4.ip_forward", "1")
    except RetryableHostError as error:
        log.warning("no forwarding: %s", error.detail)
        result.append(UNFORWARDED)
    return result


class Bridges(Part):
    """Creates bridges, connects them to those of other hosts, and attaches guests' interfaces."""

    def __init__(self, folder: Path, segments: Segments) -> None:
        """``folder``: where the created objects are recorded, in a folder for each network."""
        self._folder = folder
        self._segments = segments
        self._brought: dict[str, NetworkDocument] = {}
        """The documents of networks that this process has applied, by id."""

    def prepare(self) -> None:
        """Do nothing: ``lacks`` is called before."""

    def bring(self, desired: DesiredState, touched: Touched) -> None:
        work = self._bring if touched.everything else self._update
        changed = [
            each for each in touched.networks(desired) if touched.everything or self._brought.get(each.id) != each
        ]
        for_each(changed, lambda network: work(network, desired))

    def drop(self, desired: DesiredState) -> None:
        self._brought = {subject: done for subject, done in self._brought.items() if subject in desired.networks}
        for_each([path for path in self._folder.glob("*") if path.name not in desired.networks], _drop)

    def check(self, desired: DesiredState) -> list[str]:
        there, masters, networks = set(links.names()), links.masters(), desired.networks.values()

        def whole(network: NetworkDocument) -> bool:
            taps = [each.port.tap for each in desired.ports_on(network.id)]
            apart = [tap for tap in taps if tap in there and masters.get(tap) != network.bridge]
            return {network.bridge, port_of(network.segment, network.id)} <= there and not apart

        gone = [each for each in networks if not whole(each)]
        for_each(gone, lambda network: self._bring(network, desired))
        return [f"bridge of network {network.id}" for network in gone]

    def _bring(self, network: NetworkDocument, desired: DesiredState) -> None:
        self._brought.pop(network.id, None)
        self._remember(network)
        links.ensure_plain_bridge(network.bridge, network.mtu, up=network.enabled)
        links.join(network.bridge, [each.port.tap for each in desired.ports_on(network.id)])
        self._segments.ensure(network)
        self._brought[network.id] = network

    def _update(self, network: NetworkDocument, desired: DesiredState) -> None:
        """Apply a document. If only ports on other hosts have changed, update only the forwarding table."""
        before = self._brought.get(network.id)
        if before is None or replace(before, remote_ports=network.remote_ports) != network:
            self._bring(network, desired)
            return
        self._brought.pop(network.id)
        self._segments.forward(network)
        self._brought[network.id] = network

    def _remember(self, network: NetworkDocument) -> None:
        path = self._folder / network.id / "made.json"
        made = msgspec.json.encode(CreatedObjects(bridge=links.interface_name(network.bridge), segment=network.segment))
        if path.exists() and path.read_bytes() == made:
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(made)


def announce(ports: Iterable[PortRef]) -> None:
    """Announce guests' addresses to the switches of physical networks, which have learned where the guests were. Other
    hosts have forwarding tables instead.
    """
    for port in ports:
        if port.network.segment.type != "vxlan":
            outer = port_of(port.network.segment, port.network.id)
            announcing.announce(outer, port.mac_address, [each.address for each in port.fixed_ips])


def remove_networks(folder: Path) -> list[str]:
    """Remove the kernel objects of all networks, and return a line for each. ``folder`` is that of ``Bridges``."""
    folders = sorted(folder.glob("*"))
    for_each(folders, _drop)
    return [f"network {path.name}" for path in folders]


def _drop(path: Path) -> None:
    for made in _made(path):
        links.delete(port_of(made.segment, path.name))
        links.delete(made.bridge)
    shutil.rmtree(path, ignore_errors=True)


def _made(path: Path) -> Iterator[CreatedObjects]:
    try:
        yield msgspec.json.decode((path / "made.json").read_bytes(), type=CreatedObjects)
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read, so its network is not removed: %s", path, error)
