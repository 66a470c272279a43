"""How much of what costs the host more than to pass it on a guest may send; others go on meanwhile."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compute_agent.network.filters import rates
from compute_agent.network.filters.applying import without
from compute_agent.network.filters.tables import Chain, Table
from compute_agent.network.kernel import tracking
from tests.host.cast import EGRESS
from tests.host.guards.conftest import SERVICE_MAC, Guard, six
from tests.host.guards.test_identity import ANY4
from tests.host.lab import Interface, arp_frame, icmp6, neighbour, udp_frame, until

BURSTS = itertools.count(20)
"""A limit begins anew when it is another one."""
OWN = 10
"""Packets that the kernel in the guest's place sends by itself."""
SENT = 300
ALL_HOSTS = ("01:00:5e:00:00:01", "224.0.0.1", 9)


@pytest.fixture
def slow(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> Guard:
    """Limits that are reached soon."""
    monkeypatch.setattr(rates, "LIMITS", dict.fromkeys(rates.LIMITS, (1, next(BURSTS))))
    return guard


def burst() -> int:
    return rates.LIMITS[rates.ASKS][1]


def ends(one: Interface, port: int = 9) -> tuple[str, str, int]:
    return one.port.mac_address, one.address, port


def asks_arp(one: Interface, number: int) -> bytes:
    return arp_frame(one.port.mac_address, (one.port.mac_address, one.address), f"10.0.0.{number % 250 + 1}")


def asks_neighbours(one: Interface, number: int) -> bytes:
    about = f"fe80::{number + 1:x}"
    return icmp6(one.port.mac_address, six(one), 135, neighbour(135, about, one.port.mac_address))


def floods(one: Interface, number: int) -> bytes:
    return udp_frame(ends(one, number + 1), ALL_HOSTS, b"x")


def sends_fragments(one: Interface, number: int) -> bytes:
    frame = udp_frame(ends(one), ("02:00:00:00:00:01", "10.0.0.250", 9), b"x" * 8)
    head = bytearray(frame[14:34])
    struct.pack_into("!HH", head, 4, number, 0x2000)
    return frame[:14] + bytes(head) + frame[34:]


def passed(guard: Guard, one: Interface, frame: Callable[[Interface, int], bytes], least: int = 0) -> tuple[int, int]:
    """Send many frames; return how many pass the bridge's table, ``least`` or more, and how many may.

    The kernel may look at frames after they were sent.
    """
    chain = f"from-{guard.filters._ports.of(one.port.id)}"
    guard.space.run(*f"nft insert rule bridge novella_filters {chain} counter".split())
    began = time.monotonic()
    for number in range(SENT):
        one.send(frame(one, number))

    def counted() -> int:
        output = guard.space.run(*f"nft list chain bridge novella_filters {chain}".split())
        return int(output.partition("counter packets ")[2].split()[0])

    until(lambda: counted() >= least, f"{least} frames pass")
    many = counted()
    return many, burst() + int(time.monotonic() - began) + 1


@pytest.mark.parametrize("secured", [True, False])
@pytest.mark.parametrize("frame", [asks_arp, asks_neighbours, floods, sends_fragments])
def test_a_guest_sends_so_many_and_no_more(
    slow: Guard, frame: Callable[[Interface, int], bytes], *, secured: bool
) -> None:
    one = slow.plug(1, port_security=secured)
    two = slow.plug(2)
    slow.allow(EGRESS, ANY4)
    many, most = passed(slow, one, frame, burst() - OWN)
    assert many <= most < SENT
    passed(slow, two, frame, burst() - OWN)  # another guest has a limit of its own


def test_what_is_sent_to_the_hosts_own_services_is_limited(slow: Guard) -> None:
    one = slow.plug(1)
    for target in ((SERVICE_MAC, "10.0.0.2", 53), ("02:00:00:00:00:01", "169.254.169.254", 80)):
        many, most = passed(
            slow, one, lambda each, number, target=target: udp_frame(ends(each, number + 1), target, b"")
        )
        assert many <= most < SENT


def test_other_traffic_between_guests_has_no_limit(slow: Guard) -> None:
    one, two = slow.plug(1), slow.plug(2)
    slow.allow(EGRESS, ANY4)
    passed(slow, one, lambda each, number: udp_frame(ends(each, number + 1), ends(two), b"x"), SENT)


def test_a_change_of_groups_goes_on_counting(slow: Guard) -> None:
    one = slow.plug(1)
    slow.allow(EGRESS, ANY4)
    began = time.monotonic()
    passed(slow, one, asks_arp, burst() - OWN)
    slow.allow(EGRESS)
    many, _ = passed(slow, one, asks_arp)
    assert many <= int(time.monotonic() - began) + 2, "what the limit allows meanwhile"


def test_a_limit_that_the_kernel_does_not_take_stops_no_guest() -> None:
    table = Table("bridge", "x", {}, {"rate-asks-1": Chain(("bad",)), "from-1": Chain(("bad",))})
    [kept] = without([table], {"bad"})
    assert kept.chains == {"rate-asks-1": Chain([]), "from-1": Chain(("drop",))}


def test_fragments_have_more_memory_and_wait_less(guard: Guard) -> None:
    def read() -> tuple[list[int], list[int]]:
        names = [Path("/proc/sys") / name.replace(".", "/") for name in (*tracking.FRAGMENTS, *tracking.WAITS)]
        values = [int(path.read_text()) for path in names]
        return values[:3], values[3:]

    guard.space.do(tracking.prepare_fragments)
    memory, seconds = guard.space.do(read)
    assert min(memory) >= tracking.LEAST_FRAGMENTS
    assert max(seconds) <= tracking.WAITS_SECONDS
    rate, _ = rates.LIMITS[rates.FRAGMENTS]
    truesize = 2304
    assert rate * tracking.WAITS_SECONDS * truesize <= min(memory), "one guest alone does not fill it"
