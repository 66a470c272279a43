"""What routers keep from guests: the host's own networks, link-local addresses, the inner addresses of routers."""

from __future__ import annotations

import pytest

from tests.host.lab import NOBODY, Interface
from tests.host.layer2.rack import Machine
from tests.host.layer3.test_outside import seen_as
from tests.host.layer3.test_routed import pings
from tests.host.layer3.town import OUTSIDE, WORLD, RouterWish, Town, inner
from up.places import UNDERLAY

HOSTS_OWN, HOSTS_OWN_SIX = "192.168.50.77", "2001:db8:50::77"
"""A machine in the network between the hosts."""
METADATA, LINK_LOCAL = "169.254.169.254", "169.254.77.77"
"""Where a cloud that the host is in answers its machines, and another address of that kind."""


@pytest.fixture
def machine(town: Town) -> Machine:
    """A host whose networks lead beyond it: its neighbours are on the outside's way too."""
    for address in (f"{HOSTS_OWN}/32", f"{HOSTS_OWN_SIX}/128", f"{METADATA}/32", f"{LINK_LOCAL}/32"):
        town.outside.run("ip", "addr", "replace", address, "dev", "lo")
    host = town.hosts[0]
    host.lab.machine.run("ip", "addr", "replace", "2001:db8:50::1/64", "dev", UNDERLAY, "nodad")
    return host


@pytest.fixture(params=[0, pytest.param(None, marks=pytest.mark.deep)], ids=["home", "no home"])
def routed(request: pytest.FixtureRequest, town: Town, machine: Machine) -> tuple[RouterWish, Interface]:
    one = inner(1, six=True)
    router = town.router(1, one, home=request.param)
    town.outside.run("ip", "route", "replace", "2001:db8:1::/64", "via", "2001:db8:4::101")
    return router, town.guest(0, one, 1)


def test_guests_reach_the_outside_and_no_network_of_the_host(town: Town, routed: tuple[RouterWish, Interface]) -> None:
    router, guest = routed
    for address in (WORLD, OUTSIDE, "10.1.0.1"):
        assert pings(guest.space, address)
    # The router itself has nothing to connect to.
    for port in (22, 53, 547):
        assert not guest.space.connects("10.1.0.1", port, patience=0.3)
        assert not town.outside.connects(router.address, port, patience=0.3)
    for address in (HOSTS_OWN, HOSTS_OWN_SIX, LINK_LOCAL):
        assert not pings(guest.space, address, patience=1)
    # It asks the metadata service of its own host, never that of the host's own cloud.
    with town.outside.listens(METADATA, 80) as theirs, town.outside.listens(METADATA, 81):
        assert guest.space.connects(METADATA, 80)
        assert not guest.space.connects(METADATA, 81, patience=1)
        theirs.settimeout(0)
        with pytest.raises(BlockingIOError):
            theirs.accept()


@pytest.mark.deep
def test_a_floating_ip_opens_no_way_to_them(town: Town, routed: tuple[RouterWish, Interface]) -> None:
    """But answers to somebody there pass."""
    router, guest = routed
    floating = town.float(1, router, guest)
    assert seen_as(guest.space, town.outside, WORLD) == floating.address
    assert not pings(guest.space, HOSTS_OWN, patience=1)
    with guest.space.listens(NOBODY, 22):
        assert town.outside.connects(floating.address, 22, source=HOSTS_OWN)


@pytest.mark.deep
def test_inner_addresses_of_routers_are_nobodys_business(town: Town, routed: tuple[RouterWish, Interface]) -> None:
    _, guest = routed
    space = f"{town.hosts[0].inside.path.name}-r-"
    listed = town.hosts[0].inside.run(
        "sh", "-c", f"for n in /run/netns/{space}*; do nsenter --net=$n ip -o -4 addr; done"
    )
    inside = [word.partition("/")[0] for word in listed.split() if word.startswith("169.254.")]
    assert inside
    for address in inside:
        assert not pings(guest.space, address, patience=1)


def test_guests_cannot_pass_themselves_off_as_outside(town: Town, routed: tuple[RouterWish, Interface]) -> None:
    """Not even where nothing is translated."""
    router, guest = routed
    router.enable_snat = False
    town.sync()
    guest.space.run("ip", "addr", "add", "172.24.4.250/32", "dev", "lo")
    assert not guest.space.connects(WORLD, 9, patience=0.5, source="172.24.4.250")
    assert "172.24.4.250" not in town.outside.run("ip", "neigh")
