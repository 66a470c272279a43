"""A host's filters alone: bridges, and interfaces of guests without the guests."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import NetworkRef, SecurityRule, Segment
from compute_agent.contract.network import (
    NetworkDocument,
    RouterDocument,
    RouterInterface,
    SecurityGroupDocument,
    ServicePort,
)
from compute_agent.network.filters.applying import Filters
from compute_agent.network.kernel import links
from compute_agent.network.kernel.names import link_local
from compute_agent.network.state.desired import DesiredState, LocalPort
from tests.host.cast import OURS, Wish, network
from tests.host.lab import Interface, Space

SERVICE_MAC = "fa:16:3f:00:00:01"


SHARE = 64
"""Tracked connections of an interface."""


@dataclass
class Guard:
    """The desired state of the filters, and their namespace."""

    space: Space
    filters: Filters
    folder: Path
    ports: dict[str, LocalPort] = field(default_factory=dict)
    networks: dict[str, NetworkDocument] = field(default_factory=dict)
    routers: dict[str, RouterDocument] = field(default_factory=dict)
    groups: dict[str, SecurityGroupDocument] = field(default_factory=dict)
    interfaces: list[Interface] = field(default_factory=list)

    @property
    def desired(self) -> DesiredState:
        return DesiredState(
            ports=tuple(self.ports.values()), networks=self.networks, routers=self.routers, security_groups=self.groups
        )

    def apply(self) -> None:
        self.space.do(lambda: self.filters.apply(self.desired))

    def know(self, net: NetworkRef) -> None:
        """Make the bridge of a network."""
        if net.id in self.networks:
            return
        service = ServicePort(id=net.id, mac_address=SERVICE_MAC, addresses=[net.cidr.replace(".0/24", ".2")])
        segment = Segment(type="vxlan", id=len(self.networks) + 1)
        self.networks[net.id] = NetworkDocument(
            id=net.id, name=net.name, bridge=net.bridge, mtu=1450, segment=segment, subnets=[], service=service
        )
        self.space.do(lambda: links.ensure_plain_bridge(net.bridge, 1450, up=True))

    def allow(self, *rules: SecurityRule, group: str = OURS, **changes: Any) -> None:
        """Let a group allow exactly these."""
        self.groups[group] = SecurityGroupDocument(id=group, rules=[*rules], **changes)
        self.apply()

    def plug(
        self, number: int, *, groups: tuple[str, ...] = (OURS,), net: NetworkRef | None = None, **port: Any
    ) -> Interface:
        """Plug in a guest's interface and give it its address."""
        net = net or network()
        self.know(net)
        ref = replace(
            Wish(number=number, network=replace(net, gateway=None)).port(), security_group_ids=list(groups), **port
        )
        self.ports[ref.id] = LocalPort(instance_id=ref.id, hostname=f"vm-{number}", port=ref)
        self.apply()
        interface = Interface(self.space, ref, f"{self.space.name}-{len(self.interfaces)}")
        self.interfaces.append(interface)
        interface.configure()
        return interface

    def join(self, *nets: NetworkRef) -> None:
        """Let a router join networks, as far as the filters know."""
        legs = [
            RouterInterface(port_id=net.id, network_id=net.id, mac_address=SERVICE_MAC, addresses=[]) for net in nets
        ]
        self.routers["r"] = RouterDocument(id="r", name="r", interfaces=legs)
        self.apply()

    def clear(self) -> None:
        for interface in self.interfaces:
            self.space.do(lambda interface=interface: links.delete(interface.port.tap))  # type: ignore[misc]
            interface.remove()
        for each in self.networks.values():
            self.space.do(lambda each=each: links.delete(each.bridge))  # type: ignore[misc]
        for kept in (self.ports, self.networks, self.routers, self.groups):
            kept.clear()
        self.interfaces.clear()


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    space = Space(f"nvf{os.getpid()}")
    for name in ("iptables", "ip6tables", "arptables"):
        space.do(lambda name=name: links.write_sysctl(f"net.bridge.bridge-nf-call-{name}", "1"))  # type: ignore[misc]
    folder: Path = tmp_path_factory.mktemp("filters")
    yield Guard(space, Filters(folder, lambda _: SHARE), folder)
    space.remove()


@pytest.fixture
def guard(filtered: Guard) -> Iterator[Guard]:
    yield filtered
    filtered.clear()


def six(interface: Interface) -> str:
    """The interface's link-local address."""
    return str(ipaddress.IPv6Address(link_local(interface.port.mac_address)))
