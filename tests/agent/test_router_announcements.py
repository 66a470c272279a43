"""An address is announced a few times, and only by the host that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from compute_agent.network.routers import advertise
from compute_agent.network.routers.advertise import TIMES, Announcements
from compute_agent.network.routers.records import Leg

LEG = Leg(name="ext0", mac="fa:16:3f:00:00:01", bridge="br", mtu=1500, addresses=())
ONE, TWO = "203.0.113.5", "203.0.113.6"


@pytest.fixture
def announcements(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every announcement: the interface and the address."""
    values: list[tuple[str, str]] = []

    def note(interface: str, mac: str, addresses: Iterable[str]) -> None:
        values.extend((interface, address) for address in sorted(addresses))

    monkeypatch.setattr(advertise, "announce", note)
    return values


def inside(_: str, work: Callable[[], None]) -> None:
    work()


def test_an_address_is_announced_a_few_times(announcements: list[tuple[str, str]]) -> None:
    made = Announcements()
    made.add(inside, "space", LEG, frozenset({ONE}))
    for _ in range(TIMES + 2):
        made.again(inside)
    assert announcements == [("ext0", ONE)] * TIMES


def test_an_address_that_has_left_is_announced_no_more(announcements: list[tuple[str, str]]) -> None:
    made = Announcements()
    made.add(inside, "space", LEG, frozenset({ONE, TWO}))
    made.keep_only("space", "ext0", {TWO})
    announcements.clear()
    made.again(inside)
    assert announcements == [("ext0", TWO)]
    made.keep_only_spaces({"another"})
    made.again(inside)
    assert announcements == [("ext0", TWO)]


def test_an_address_that_comes_back_is_announced_anew(announcements: list[tuple[str, str]]) -> None:
    made = Announcements()
    made.add(inside, "space", LEG, frozenset({ONE}))
    made.keep_only("space", "ext0", ())
    made.add(inside, "space", LEG, frozenset({ONE}))
    for _ in range(TIMES + 2):
        made.again(inside)
    assert announcements == [("ext0", ONE)] * (TIMES + 1)
