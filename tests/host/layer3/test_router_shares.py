"""No guest takes the connection tracking of the others behind its router, nor does anybody outside through it."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

import pytest

from tests.host.lab import Interface, Space, until
from tests.host.layer3.test_routed import pings
from tests.host.layer3.town import WORLD, RouterWish, Town, inner

SHARE = 40


def inside_of(town: Town, router: RouterWish) -> Space:
    return Space(f"{town.hosts[0].inside.path.name}-r-{router.id}")


def shrink(space: Space, folder: Path) -> None:
    """Let the shares in a router's table be small ones."""
    text, many = re.subn(r"ct count over \d+", f"ct count over {SHARE}", space.run("nft", "list", "ruleset"))
    assert many >= 4
    text = re.sub(r"\n\t\telements = \{[^}]* ct count[^}]*\}", "", text)
    (folder / "rules").write_text(f"flush ruleset\n{text}")
    space.run("nft", "-f", str(folder / "rules"))


def tracked(space: Space) -> int:
    return int(space.run("cat", "/proc/sys/net/netfilter/nf_conntrack_count"))


def sends(space: Space, address: str) -> None:
    """Begin many times the share, each with another port."""

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for port in range(20_000, 20_000 + 4 * SHARE):
                with contextlib.suppress(OSError):  # an answer that the port is closed
                    sender.sendto(b"x", (address, port))

    space.do(send)


@pytest.fixture
def pair(town: Town) -> tuple[RouterWish, Interface, Interface]:
    one = inner(1)
    return town.router(1, one, home=0), town.guest(0, one, 1), town.guest(0, one, 2)


def test_a_guest_begins_its_share_and_others_go_on(
    town: Town, pair: tuple[RouterWish, Interface, Interface], tmp_path: Path
) -> None:
    router, evil, other = pair
    space = inside_of(town, router)
    assert pings(evil.space, WORLD)
    shrink(space, tmp_path)
    before = tracked(space)
    sends(evil.space, WORLD)
    until(lambda: tracked(space) - before > SHARE // 2, "the kernel tracks what was sent")
    assert tracked(space) - before <= SHARE + 2
    assert pings(other.space, WORLD)


@pytest.mark.deep
def test_what_comes_from_outside_has_a_share_for_each_guest(
    town: Town, pair: tuple[RouterWish, Interface, Interface], tmp_path: Path
) -> None:
    router, *guests = pair
    space = inside_of(town, router)
    floating = [town.float(number, router, guest) for number, guest in enumerate(guests, 1)]
    assert pings(town.outside, floating[0].address)
    shrink(space, tmp_path)
    before = tracked(space)
    sends(town.outside, floating[0].address)
    until(lambda: tracked(space) - before > SHARE // 2, "the kernel tracks what was sent")
    assert tracked(space) - before <= SHARE + 2
    assert pings(town.outside, floating[1].address)


@pytest.mark.deep
def test_the_machine_gives_each_network_a_share_for_its_names(
    town: Town, pair: tuple[RouterWish, Interface, Interface]
) -> None:
    """Name servers of networks ask through the machine, whose table others use, too."""
    output = town.hosts[0].lab.machine.run("nft", "list", "ruleset")
    assert re.search(r'iifname "nv-\w+" ct state new add @begun \{ ip saddr ct count over \d+ \} drop', output)
