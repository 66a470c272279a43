"""Filters and leases over time: what unplugging leaves, what is lost and put back, what a new agent restores."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import FixedAddress, InstanceSpec
from compute_agent.virt.errors import RetryableHostError
from tests.host.cast import EGRESS, SSH, Wish, network
from tests.host.filters.plugging import Plug, offered, serve
from tests.host.host_process import HostProcess
from tests.host.lab import (
    Lab,
    Space,
    links,
    processes_naming,
    until,
)


def test_unplugging_the_last_guest_leaves_nothing(
    lab: Lab, plug: Plug, host: HostProcess, inside: Space, plugged: list[InstanceSpec]
) -> None:
    before = links(inside)
    interface = plug(Wish(1))
    assert {interface.port.tap, "nvbr20"} <= links(inside)
    spec = plugged.pop()
    for _ in range(2):
        host.network.unplug(spec.uuid)
    assert links(inside) == before
    assert "nvbr20" not in inside.run("nft", "list", "ruleset")
    assert interface.port.tap not in inside.run("nft", "list", "ruleset")
    assert processes_naming(lab.settings.state_dir / "network") == []
    assert list((lab.settings.state_dir / "network").glob("*/*")) == []


def test_a_dead_dhcp_server_is_noticed_and_started_again(plug: Plug, host: HostProcess, lab: Lab) -> None:
    interface = plug(Wish(1))
    bridge = (
        lab.settings.state_dir / "network/bridges/nvbr20"
    )  # other clouds of the run have a bridge of this name, too
    pid = int((bridge / "dnsmasq.pid").read_text())
    assert host.network.check() == []
    os.kill(pid, signal.SIGKILL)
    until(lambda: not processes_naming(bridge / "dnsmasq.conf"), "dnsmasq is dead")
    assert host.network.check() == ["DHCP of nvbr20"]
    assert offered(interface) == interface.address


def test_lost_filters_are_noticed_and_put_back(plug: Plug, host: HostProcess, inside: Space) -> None:
    plug(Wish(1))
    whole = inside.run("nft", "list", "ruleset")
    inside.run("nft", "flush", "ruleset")
    assert host.network.check() == ["filters"]
    assert inside.run("nft", "list", "ruleset") == whole


def test_a_new_agent_restores_what_the_instances_need(
    lab: Lab, plug: Plug, host: HostProcess, inside: Space, plugged: list[InstanceSpec]
) -> None:
    keeps, goes = plug(Wish(1, rules=(EGRESS, SSH))), plug(Wish(2))
    keeps.configure()
    host.kill()
    inside.run("nft", "flush", "ruleset")
    inside.run("ip", "link", "del", "nvbr20")
    host.start()
    host.network.init_host()
    host.network.restore([plugged[0]])
    with serve(keeps, 22), serve(keeps, 23):
        assert inside.connects(keeps.address, 22)
        assert not inside.connects(keeps.address, 23, 0.3)
    assert offered(keeps) == keeps.address
    assert goes.port.tap not in links(inside)
    plugged[:] = plugged[:1]


@pytest.mark.parametrize(
    "hostile",
    [
        {"tap": 'x" ; drop'},
        {"tap": "../../etc"},
        {"mac_address": "fa:16:3e:00:00:01 accept"},
        {"network": replace(network(), bridge="br0\ndhcp-script=/bin/sh")},
        {"network": replace(network(), cidr="10.20.0.0/24,static")},
        {"fixed_ips": [FixedAddress(address="10.20.0.5 }", prefix_length=24)]},
        {"security_group_ids": ["web }"]},
    ],
    ids=lambda hostile: next(iter(hostile)),
)
def test_a_hostile_description_never_reaches_a_program(
    host: HostProcess, lab: Lab, inside: Space, hostile: dict[str, Any]
) -> None:
    before = inside.run("nft", "list", "ruleset")
    spec = replace(Wish(1).spec(), ports=[replace(Wish(1).port(), **hostile)])
    for work in (host.network.plug, host.network.apply_firewall):
        with pytest.raises(RetryableHostError):
            work(spec)
    host.network.unplug(spec.uuid)
    assert inside.run("nft", "list", "ruleset") == before
    assert list((lab.settings.state_dir / "network/instances").glob("*")) == []
