"""External networks that end at the machine itself: it reaches floating IPs, and its own network does when it may."""

from __future__ import annotations

import ipaddress
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import Segment, SubnetRef
from tests.host.lab import NOBODY, PATIENCE, Interface, Space, links
from tests.host.layer3.test_outside import caller, seen_as
from tests.host.layer3.test_routed import pings
from tests.host.layer3.town import FloatingWish, Town, inner, uuid_of
from up.places import EXTERNAL

BESIDE = "192.0.2.1"
"""A machine in the network that this machine is in."""
OWN_RANGE, PART = ipaddress.IPv4Network("172.24.5.0/24"), ipaddress.IPv4Network("192.0.2.128/25")
"""A range that nobody around knows of, and a part of that network's own."""


class MachineTown(Town):
    """Hosts whose external networks end at themselves."""

    wishes: ClassVar[dict[str, Any]] = {}

    def wire(self, machine: Space, number: int) -> None:
        machine.run("ip", "addr", "add", f"192.0.2.{number + 1}/24", "dev", EXTERNAL)

    def end_at(self, outside: ipaddress.IPv4Network) -> None:
        """Let the external network be this range."""
        self.range = outside
        subnet = SubnetRef(id=uuid_of(1, 99), cidr=str(outside), gateway=str(outside[1]))
        segment = Segment(type="flat", physical_network="machine")
        self.external = replace(self.external, segment=segment, subnets=[subnet])

    @property
    def machine(self) -> Space:
        return self.hosts[0].lab.machine


class OpenTown(MachineTown):
    """Hosts that let their network in."""

    wishes: ClassVar[dict[str, Any]] = {"external_interface": EXTERNAL}


@pytest.fixture(scope="module", params=[MachineTown, OpenTown], ids=["closed", "open"])
def _town(request: pytest.FixtureRequest) -> Iterator[Town]:
    name = f"nvm{os.getpid()}-{abs(hash(request.node.nodeid)) % 1000}"
    with tempfile.TemporaryDirectory(prefix="nvm-") as folder:
        town = request.param(Path(folder), name)
        town.outside.run("ip", "addr", "add", f"{BESIDE}/24", "dev", EXTERNAL)
        yield town
        town.remove()
        assert town.traces() == []


@pytest.fixture(
    params=[OWN_RANGE, pytest.param(PART, marks=pytest.mark.deep)], ids=["own range", "part of the network"]
)
def placed(request: pytest.FixtureRequest, town: MachineTown) -> Iterator[tuple[MachineTown, Interface, FloatingWish]]:
    """A guest with a floating IP at a machine."""
    before = links(town.machine)
    town.end_at(request.param)
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(0, one, 1)
    yield town, guest, town.float(1, router, guest)
    town.clear()
    assert links(town.machine) == before
    assert "nvm" not in town.machine.run("nft", "list", "tables")


Placed = tuple[MachineTown, Interface, FloatingWish]
OPEN = pytest.mark.parametrize(
    "_town",
    [pytest.param(MachineTown, id="closed", marks=pytest.mark.deep), pytest.param(OpenTown, id="open")],
    indirect=True,
    scope="module",
)
"""For what does not depend on whether the machine lets its network in."""


@OPEN
def test_the_machine_reaches_floating_ips(placed: Placed) -> None:
    town, guest, floating = placed
    with guest.space.listens(NOBODY, 22) as listener:
        assert town.machine.connects(floating.address, 22)
        assert caller(listener) == str(town.range[1])


@OPEN
def test_guests_reach_what_is_beyond_but_not_the_machine(placed: Placed) -> None:
    """The machine hides them behind its own address, but where its neighbours find them."""
    town, guest, floating = placed
    result = town.range is PART and isinstance(town, OpenTown)
    town.machine.run("ip", "route", "replace", "198.51.100.0/24", "via", BESIDE)
    assert seen_as(guest.space, town.outside, "198.51.100.1") == (floating.address if result else "192.0.2.2")
    with town.machine.listens(NOBODY, 23):
        assert not guest.space.connects(str(town.range[1]), 23, patience=0.5)
        assert not guest.space.connects("192.0.2.2", 23, patience=0.5)
    assert pings(guest.space, str(town.range[1]))


@pytest.mark.deep
def test_its_network_comes_in_only_when_it_is_let_in(placed: Placed) -> None:
    town, guest, floating = placed
    if town.range is OWN_RANGE:
        town.outside.run("ip", "route", "replace", str(OWN_RANGE), "via", "192.0.2.2")
    with guest.space.listens(NOBODY, 22) as listener:
        comes_in = isinstance(town, OpenTown)
        assert town.outside.connects(floating.address, 22, patience=PATIENCE if comes_in else 1) == comes_in
        if comes_in:
            assert caller(listener) == BESIDE


@pytest.mark.deep
@OPEN
def test_the_machine_forgets_addresses_that_are_gone(placed: Placed) -> None:
    town, _, floating = placed
    town.floating.clear()
    town.sync()
    assert not pings(town.outside, floating.address, patience=1)
    assert floating.address not in town.machine.run("ip", "neigh", "show", "proxy")


@pytest.mark.deep
@OPEN
def test_what_the_machine_lost_is_made_anew(placed: Placed) -> None:
    town, _, floating = placed
    (bridge,) = {name for name in links(town.machine) if name.startswith("nvm")}
    town.machine.run("ip", "link", "del", bridge)
    assert not pings(town.machine, floating.address, patience=1)
    assert any("machine" in line for line in town.hosts[0].process.network.check())
    assert pings(town.machine, floating.address)
