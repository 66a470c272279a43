"""Hosts on a switch: namespaces for machines, each with a process that is its agent's network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from compute_agent.contract.build import DhcpOption, InstanceSpec, Segment, SubnetRef
from compute_agent.contract.network import NetworkDocument, RemotePort, ServicePort
from compute_agent.network.kernel import namespace
from compute_agent.settings import AgentSettings
from tests.host.cast import Wish
from tests.host.host_process import HostProcess
from tests.host.lab import Interface, Lab, Space, links
from up.switch import Switch

MTU = 1450


def document(number: int, **changes: object) -> NetworkDocument:
    """The network 10.``number``.0.0/24 with VNI ``number``, DHCP at .2 and no gateway."""
    subnet = SubnetRef(id=f"{number:08d}-0000-4000-8000-00000000aaaa", cidr=f"10.{number}.0.0/24")
    made = NetworkDocument(
        id=f"{number:08d}-0000-4000-8000-000000000000",
        name=f"net-{number}",
        bridge=f"br{number:08d}000",
        mtu=MTU,
        segment=Segment(type="vxlan", id=number),
        subnets=[subnet],
        service=ServicePort(
            id=f"{number:08d}-0000-4000-8000-0000000000dc",
            mac_address=f"fa:16:3e:{number:02x}:dc:dc",
            addresses=[f"10.{number}.0.2"],
        ),
    )
    return replace(made, **changes)


@dataclass
class Machine:
    """One host: its machine's namespace, its agent's, and what is plugged on it."""

    lab: Lab
    underlay: str
    process: HostProcess
    guests: list[tuple[InstanceSpec, Interface]] = field(default_factory=list)

    @property
    def inside(self) -> Space:
        return self.lab.inside()

    def restart(self) -> None:
        """Let the agent die and come back."""
        self.process.kill()
        self.come_back()

    def come_back(self) -> None:
        """Let an agent take over what the one that died has left."""
        self.process.start()
        self.process.network.init_host()
        self.process.network.restore([spec for spec, _ in self.guests])


class Rack:
    """Two hosts on a switch, and the documents they were told."""

    wishes: ClassVar[dict[str, Any]] = {"physical_networks": {"lan": "lan0"}}
    """Further settings of the hosts' agents."""
    switch: ClassVar[Callable[[str], Switch]] = partial(Switch, underlay="192.168.50.0/24")

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._switch = folder, name, type(self).switch(name)
        self._switch.make(2)
        self.hosts = [self._host(number) for number in (1, 2)]
        self._generation = 0
        self._told: set[str] = set()

    def beside(self, address: str) -> Space:
        """Return a namespace between the hosts that has this address, with its prefix length."""
        space = Space(self._switch.middle)
        space.run("ip", "addr", "replace", address, "dev", "underlay0")
        return space

    def _host(self, number: int) -> Machine:
        machine, underlay = Space(self._switch.machine(number)), self._switch.underlay_address(number)
        settings = AgentSettings(
            host=machine.name,
            state_dir=self._folder / machine.name,
            netns=self._switch.guests(number),
            underlay_address=underlay,
            guest_user="nobody",
            **self.wishes,
        )
        self.wire(machine, number)
        process = HostProcess(settings, machine.path, Path("/dev/null"))
        process.network.init_host()
        return Machine(Lab(settings, machine), underlay, process)

    def wire(self, machine: Space, number: int) -> None:
        """Give a machine more than the switch does, before its agent starts."""

    def tell(self, network: NetworkDocument) -> None:
        """Tell both hosts of the network, each with the guests of the other."""
        self._told.add(network.id)
        self._generation += 1
        for host in self.hosts:
            others = [each for each in self.hosts if each is not host]
            remote = [
                RemotePort(
                    id=port.id,
                    mac_address=port.mac_address,
                    addresses=[fixed.address for fixed in port.fixed_ips],
                    underlay=each.underlay,
                    hostname=spec.hostname,
                    dns_domain=port.dns_domain,
                )
                for each in others
                for spec, _ in each.guests
                for port in spec.ports
                if port.network.id == network.id
            ]
            document = replace(network, peers=[each.underlay for each in others], remote_ports=remote)
            host.process.network.apply(document, self._generation)

    def forget(self, network: NetworkDocument) -> None:
        for host in self.hosts:
            host.process.network.forget("network", network.id)

    def plug(
        self,
        host: Machine,
        network: NetworkDocument,
        number: int,
        *,
        options: Sequence[DhcpOption] = (),
        announced: bool = True,
        **wishes: object,
    ) -> Interface:
        """Plug a guest without the guest; all hosts hear of it when they are ``told``."""
        ref = Wish().network
        cidr = network.subnets[0].cidr
        ref = replace(
            ref, id=network.id, name=network.name, bridge=network.bridge, cidr=cidr, gateway=None, mtu=network.mtu,
            segment=network.segment, subnets=network.subnets,
        )  # fmt: skip
        spec = Wish(number, network=ref, port_security=False, **wishes).spec()  # type: ignore[arg-type]
        spec = replace(spec, ports=[replace(port, extra_dhcp_opts=list(options)) for port in spec.ports])
        host.process.network.plug(spec)
        host.process.network.apply_firewall(spec)
        interface = Interface(host.inside, spec.ports[0], f"{self._name}-g{network.segment.id}-{number}")
        host.guests.append((spec, interface))
        if announced:
            self.tell(network)
        return interface

    def clear(self) -> None:
        """Unplug every guest."""
        for host in self.hosts:
            for spec, interface in host.guests:
                host.process.network.unplug(spec.uuid)
                interface.remove()
            host.guests.clear()

    def forget_all(self) -> None:
        """Unplug every guest, forget every network that was told, and take the bridge away that a test has made."""
        self.clear()
        for host in self.hosts:
            for network in self._told:
                host.process.network.forget("network", network)
            if "lan0" in links(host.lab.machine):
                host.lab.machine.run("ip", "link", "del", "lan0")
        self._told.clear()

    def remove(self) -> None:
        self.clear()
        for host in self.hosts:
            host.process.kill()
            host.lab.clean()
            shutil.rmtree(host.lab.settings.state_dir, ignore_errors=True)
        self._switch.remove()

    def traces(self) -> list[str]:
        """What is left of the rack on this machine."""
        return namespace.listed(self._name)


def interfaces(host: Machine) -> set[str]:
    """The interfaces in the host's namespace, without the way out."""
    return links(host.inside) - {"uplink"}
