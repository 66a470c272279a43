"""No guest takes the connection tracking of the others: each interface has a share of the table."""

from __future__ import annotations

import ipaddress
import struct

import pytest

from compute_agent.contract.messages import Tracking
from compute_agent.network.filters import owners
from compute_agent.network.kernel import links, tracking
from tests.host.cast import EGRESS, SSH, THEIRS
from tests.host.guards.conftest import SHARE, Guard
from tests.host.guards.test_groups import reaches, serving
from tests.host.guards.test_identity import ANY4
from tests.host.lab import PATIENCE, Interface, checksum, mac, udp_frame, until

SYN, SYN_ACK, ACK = 0x02, 0x12, 0x10


def tcp_frame(one: Interface, other: Interface, ports: tuple[int, int], numbers: tuple[int, int], flags: int) -> bytes:
    """A TCP segment without data."""
    source, target = (ipaddress.ip_address(each.address).packed for each in (one, other))
    segment = struct.pack("!HHIIBBHHH", *ports, *numbers, 0x50, flags, 65535, 0, 0)
    total = checksum(source + target + struct.pack("!HH", 6, len(segment)) + segment)
    segment = segment[:16] + struct.pack("!H", total) + segment[18:]
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 1, 0x4000, 64, 6, 0, source, target)
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return mac(other.port.mac_address) + mac(one.port.mac_address) + b"\x08\0" + head + segment


def shake(one: Interface, other: Interface, ports: tuple[int, int]) -> None:
    """Establish a connection, as the tracking sees it."""
    one.send(tcp_frame(one, other, ports, (1, 0), SYN))
    other.send(tcp_frame(other, one, ports[::-1], (100, 2), SYN_ACK))
    one.send(tcp_frame(one, other, ports, (2, 101), ACK))


def tracked(guard: Guard) -> int:
    return int(guard.space.run("cat", "/proc/sys/net/netfilter/nf_conntrack_count"))


def quiet(*interfaces: Interface) -> None:
    """Let the kernels in the guests' place answer nothing by themselves."""
    for interface in interfaces:
        interface.space.run("ip", "link", "set", "eth0", "arp", "off")
        interface.space.run("ip", "addr", "flush", "dev", "eth0")


def test_a_guest_that_fills_its_share_stops_nobody_else(guard: Guard) -> None:
    evil, mate = guard.plug(1), guard.plug(2)
    three, four = guard.plug(3, groups=(THEIRS,)), guard.plug(4, groups=(THEIRS,))
    guard.allow(EGRESS, ANY4)
    guard.allow(EGRESS, SSH, group=THEIRS)
    quiet(evil, mate)
    before = tracked(guard)
    with serving(four, 22):
        assert reaches(three, four, 22, PATIENCE)
        for port in range(2000, 2000 + 3 * SHARE):
            shake(evil, mate, (port, 9))
        until(lambda: tracked(guard) - before >= SHARE - 2, "the kernel tracks what was sent")
        assert tracked(guard) - before <= SHARE + 4
        assert all(reaches(three, four, 22, PATIENCE) for _ in range(3)), "others begin new connections"
    mate.drain()
    evil.send(tcp_frame(evil, mate, (2000, 9), (2, 101), ACK))
    assert mate.hears(lambda got: got[34:36] == struct.pack("!H", 2000), PATIENCE), "established connections still work"
    evil.send(tcp_frame(evil, mate, (9999, 9), (1, 0), SYN))
    assert mate.hears(lambda got: got[34:36] == struct.pack("!H", 9999), 0.3) is None


@pytest.mark.parametrize("secured", [True, False])
def test_datagrams_without_answers_are_counted_too(guard: Guard, secured: bool) -> None:
    evil, mate = guard.plug(1, port_security=secured), guard.plug(2)
    guard.allow(EGRESS, ANY4)
    quiet(evil, mate)
    before = tracked(guard)
    for port in range(2000, 2000 + 3 * SHARE):
        ends = (evil.port.mac_address, evil.address, port), (mate.port.mac_address, mate.address, 9)
        evil.send(udp_frame(*ends, b"x"))
    assert tracked(guard) - before <= SHARE + 4


def test_a_change_of_groups_goes_on_counting(guard: Guard) -> None:
    evil, mate = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, ANY4)
    quiet(evil, mate)
    before = tracked(guard)
    for start in (2000, 4000, 6000):
        guard.allow(EGRESS, ANY4, *([SSH] if start == 4000 else []))
        for port in range(start, start + SHARE):
            shake(evil, mate, (port, 9))
    assert tracked(guard) - before <= SHARE + 4


def test_all_shares_together_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "limit", lambda: 262_144)
    assert tracking.share(1) == 262_144 // tracking.LARGEST_PART
    for ports in (2, 17, 100, 400):
        assert 2 * ports * tracking.share(ports) <= 262_144 * tracking.FULL
    assert tracking.share(65) == tracking.share(128), "it changes seldom"
    assert tracking.share(1_000_000) == tracking.LEAST


def test_operators_are_warned_before_the_table_is_full() -> None:
    assert tracking.warnings(None) == [], "without connection tracking"
    for used, many in ((799, 0), (800, 1), (1000, 1)):
        now = Tracking(entries=used, limit=1000, share=50, largest=40, port="the-port")
        warnings = tracking.warnings(now)
        assert len(warnings) == many
        assert all("the-port" in each for each in warnings)


def unused(guard: Guard) -> tuple[Interface, Interface]:
    """Return two interfaces whose shares no other test has used up."""
    *_, one, other = [guard.plug(number) for number in range(1, 9)]
    return one, other


def test_the_host_says_who_has_begun_the_most(guard: Guard) -> None:
    evil, mate = unused(guard)
    guard.allow(EGRESS, ANY4)
    quiet(evil, mate)
    before = guard.space.do(guard.filters.tracking)
    assert before is not None
    for port in range(10_000, 10_000 + SHARE // 3):
        shake(evil, mate, (port, 9))
    shake(mate, evil, (10_000, 9))

    def tracking_of() -> Tracking | None:
        result = guard.space.do(guard.filters.tracking)
        return result if result and result.entries > before.entries and result.largest > SHARE // 4 else None

    now = until(tracking_of, "the kernel tracks what was sent")
    assert now is not None
    assert now.entries <= before.entries + SHARE // 3 + 1
    assert (now.share, now.port) == (SHARE, evil.port.id)
    assert now.largest <= SHARE // 3
    assert now.limit == guard.space.do(tracking.limit)


def test_a_large_table_is_counted_by_a_part_of_it(guard: Guard) -> None:
    evil, mate = unused(guard)
    guard.allow(EGRESS, ANY4)
    quiet(evil, mate)
    for port in range(11_000, 11_000 + SHARE // 2):
        shake(evil, mate, (port, 9))
    names = guard.filters._owners(guard.filters._plan)  # type: ignore[arg-type]
    result, looked = guard.space.do(lambda: owners.count(names, sample=8))
    assert looked == 8
    assert sum(result.values()) <= 8


def test_idle_connections_are_forgotten_after_an_hour(guard: Guard) -> None:
    def established() -> int:
        return tracking.entries("nf_conntrack_tcp_timeout_established", 0)

    for set_before, after in ((432_000, 3600), (600, 600)):
        guard.space.do(lambda value=set_before: links.write_sysctl(tracking.ESTABLISHED, str(value)))  # type: ignore[misc]
        guard.space.do(tracking.prepare_namespace)
        assert guard.space.do(established) == after
