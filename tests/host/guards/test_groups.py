"""What security groups allow, between guests on one host, as packets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import AddressPair, SecurityRule
from compute_agent.contract.network import AddressRanges, GroupMember
from compute_agent.network.filters import applying
from compute_agent.network.filters.applying import Filters, RefusedGroupError
from compute_agent.network.state.desired import LocalPort
from compute_agent.virt.errors import RetryableHostError
from tests.host.cast import EGRESS, OURS, PING, SSH, THEIRS, network
from tests.host.guards.conftest import SHARE, Guard, six
from tests.host.lab import PATIENCE, Interface, until

SHORT = 0.4
"""Seconds after which a packet that did not come does not come."""
OUT6 = SecurityRule(direction="egress", ethertype="IPv6")


@contextmanager
def serving(interface: Interface, port: int, address: str | None = None) -> Iterator[socket.socket]:
    with interface.space.listens(address or interface.address, port) as server:
        yield server


def reaches(one: Interface, other: Interface, port: int, patience: float = SHORT) -> bool:
    return one.space.connects(other.address, port, patience)


def pings(one: Interface, address: str, patience: float = 1) -> bool:
    return "1 packets received" in one.space.run("busybox", "ping", "-c1", f"-W{int(patience)}", address, check=False)


def test_an_unknown_group_allows_nothing(guard: Guard) -> None:
    one, two = guard.plug(1), guard.plug(2)
    with serving(two, 22):
        assert not reaches(one, two, 22)
        guard.allow(EGRESS, SSH)
        assert reaches(one, two, 22, PATIENCE)


def test_a_rule_lets_in_what_it_says_and_nothing_else(guard: Guard) -> None:
    one, two = guard.plug(1, groups=(THEIRS,)), guard.plug(2)
    guard.allow(EGRESS, group=THEIRS)
    guard.allow(SSH, PING)
    with serving(two, 22), serving(two, 23):
        assert reaches(one, two, 22, PATIENCE)
        assert not reaches(one, two, 23)
    assert pings(one, two.address, PATIENCE)
    assert not pings(two, one.address), "nothing is allowed out of it"


def test_what_may_not_go_out_does_not(guard: Guard) -> None:
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(SSH, SecurityRule(direction="egress", protocol="udp"))
    with serving(two, 22):
        assert not reaches(one, two, 22)
        guard.allow(SSH, SecurityRule(direction="egress", protocol="tcp", remote_ip_prefix="10.20.0.0/24"))
        assert reaches(one, two, 22, PATIENCE)


@pytest.mark.parametrize(
    ("rule", "reached"),
    [
        (SecurityRule(direction="ingress", protocol="6", port_range_min=20, port_range_max=30), True),
        (SecurityRule(direction="ingress", protocol="tcp", port_range_min=23, port_range_max=30), False),
        (SecurityRule(direction="ingress", protocol="tcp", remote_ip_prefix="10.20.0.5/32"), True),
        (SecurityRule(direction="ingress", protocol="tcp", remote_ip_prefix="10.20.0.99/32"), False),
        (SecurityRule(direction="ingress"), True),
        (SecurityRule(direction="ingress", ethertype="IPv6"), False),
        (SecurityRule(direction="ingress", protocol="udp"), False),
        (SecurityRule(direction="ingress", protocol="nonsense; accept"), False),
        (SecurityRule(direction="ingress", protocol="999"), False),
        (SecurityRule(direction="ingress", remote_ip_prefix="2001:db8::/32"), False),
    ],
)
def test_each_form_of_a_rule(guard: Guard, rule: SecurityRule, reached: bool) -> None:
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, rule)
    with serving(two, 22):
        assert reaches(one, two, 22, PATIENCE if reached else SHORT) is reached


def test_ipv6_is_filtered_as_ipv4(guard: Guard) -> None:
    one, two = guard.plug(1), guard.plug(2)
    target = f"{six(two)}%eth0"
    guard.allow(EGRESS, OUT6)
    until(lambda: six(two) in two.space.run("ip", "-6", "addr", "show", "dev", "eth0", "-tentative"), "DAD")
    until(lambda: six(one) in one.space.run("ip", "-6", "addr", "show", "dev", "eth0", "-tentative"), "DAD")
    assert not pings(one, target)
    guard.allow(EGRESS, OUT6, SecurityRule(direction="ingress", ethertype="IPv6", protocol="icmp", port_range_min=128))
    assert pings(one, target, PATIENCE)
    guard.allow(EGRESS, OUT6, SecurityRule(direction="ingress", ethertype="IPv6", protocol="icmp", port_range_min=129))
    assert not pings(one, target)


def test_a_rule_lets_in_the_ranges_of_an_address_group(guard: Guard) -> None:
    """Merged, in either IP version, unlimited when everything is among them; unreadable ones let nobody in."""
    one, two = guard.plug(1), guard.plug(2)
    office = "00000000-0000-4000-8000-00000000a001"
    rule = SecurityRule(direction="ingress", protocol="tcp", remote_address_group_id=office)

    def among(*addresses: str) -> None:
        guard.allow(EGRESS, rule, address_groups=[AddressRanges(id=office, addresses=[*addresses])])

    others = [f"198.18.{at // 250}.{at % 250}/32" for at in range(998)]
    with serving(two, 22), serving(two, 23) as server:
        for addresses, reached in (
            (["10.99.0.0/16", "2001:db8::/32"], False),
            ([f"{one.address}/32", "10.20.0.0/24", *others], True),
            ([], False),
            (["0.0.0.0/0", "10.0.0.0/8"], True),
            (["::/0"], False),
            ([f"{one.address}/32", "10.20.0.0/24 }; accept"], False),
        ):
            among(*addresses)
            assert reaches(one, two, 22, PATIENCE if reached else SHORT) is reached, addresses
        guard.allow(EGRESS, rule)
        assert not reaches(one, two, 22), "its ranges are unknown"
        among(f"{one.address}/32")
        client = one.space.do(lambda: socket.create_connection((two.address, 23), PATIENCE))
        peer, _ = server.accept()
        with client, peer:
            peer.settimeout(PATIENCE)
            among(f"{one.address}/32", *others)
            client.sendall(b"a")
            assert peer.recv(1) == b"a"
            among(*others)
            client.sendall(b"b")
            peer.settimeout(SHORT)
            with pytest.raises(TimeoutError):
                peer.recv(1)


def test_members_of_a_group_reach_each_other_here_and_elsewhere(guard: Guard) -> None:
    theirs = SecurityRule(direction="ingress", remote_group_id=THEIRS)
    member, stranger = guard.plug(1, groups=(THEIRS,)), guard.plug(2, groups=(OURS,))
    served = guard.plug(3)
    guard.allow(EGRESS, group=THEIRS)
    guard.allow(EGRESS, theirs)
    with serving(served, 22):
        assert reaches(member, served, 22, PATIENCE), "a member on this host counts before the document says so"
        assert not reaches(stranger, served, 22)
        elsewhere = GroupMember(network_id=network().id, address=stranger.address)
        guard.allow(EGRESS, group=THEIRS, members=[elsewhere])
        assert reaches(stranger, served, 22, PATIENCE)


def test_an_equal_address_on_another_network_is_no_member_unless_a_router_joins_them(guard: Guard) -> None:
    theirs = SecurityRule(direction="ingress", remote_group_id=THEIRS)
    other = network(30)
    one, served = guard.plug(1), guard.plug(2)
    guard.know(other)
    guard.allow(EGRESS, theirs)
    member = GroupMember(network_id=other.id, address=one.address)
    guard.allow(EGRESS, group=THEIRS, members=[member])
    with serving(served, 22):
        assert not reaches(one, served, 22)
        guard.join(network(), other)
        assert reaches(one, served, 22, PATIENCE)


def test_equal_ranges_of_two_networks_are_apart(guard: Guard) -> None:
    twin = network(20)
    twin = replace(twin, id=network(31).id, bridge="nvbr31")
    one, two = guard.plug(1), guard.plug(2)
    first, second = guard.plug(1, net=twin), guard.plug(2, net=twin)
    assert (one.address, two.address) == (first.address, second.address)
    guard.allow(EGRESS, SSH)
    with serving(two, 22):
        assert reaches(one, two, 22, PATIENCE)
        assert not reaches(first, second, 22)
        with serving(second, 22):
            assert reaches(first, second, 22, PATIENCE)


def test_a_connection_goes_on_over_changes_and_ends_when_it_is_allowed_no_more(guard: Guard) -> None:
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, SSH)
    with serving(two, 22) as server:
        client = one.space.do(lambda: socket.create_connection((two.address, 22), PATIENCE))
        peer, _ = server.accept()
        with client, peer:
            guard.allow(EGRESS, SSH, PING)
            client.sendall(b"a")
            peer.settimeout(PATIENCE)
            assert peer.recv(1) == b"a"
            guard.allow(EGRESS, PING)
            client.sendall(b"b")
            peer.settimeout(SHORT)
            with pytest.raises(TimeoutError):
                peer.recv(1)
            guard.allow(EGRESS, SSH)
            peer.settimeout(PATIENCE)
            assert peer.recv(1) == b"b"


def test_a_guest_that_only_receives_goes_on_when_another_right_of_its_is_taken_away(guard: Guard) -> None:
    """Its connection must stay tracked: it sends nothing by which the host could know it anew."""
    one, two = guard.plug(1, groups=(THEIRS,)), guard.plug(2)
    guard.allow(EGRESS, SSH)
    guard.allow(EGRESS, SSH, PING, group=THEIRS)
    with serving(two, 22) as server, serving(one, 22) as reached:
        client = one.space.do(lambda: socket.create_connection((two.address, 22), PATIENCE))
        peer, _ = server.accept()
        other = two.space.do(lambda: socket.create_connection((one.address, 22), PATIENCE))
        taken, _ = reached.accept()
        with client, peer, other, taken:
            guard.allow(EGRESS, PING, group=THEIRS)
            peer.sendall(b"a")
            client.settimeout(PATIENCE)
            assert client.recv(1) == b"a"
            other.sendall(b"b")
            taken.settimeout(SHORT)
            with pytest.raises(TimeoutError):
                taken.recv(1)


@pytest.mark.parametrize(("protocol", "kept"), [("icmp", True), ("1", True), ("tcp", False)])
def test_answers_that_are_on_their_way_arrive_while_rules_change(guard: Guard, protocol: str, kept: bool) -> None:
    """A rule that is said in other words is another one to the filters, and the same to what is tracked."""
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, PING, SSH)
    assert pings(one, two.address, PATIENCE)
    before = _tracked(guard, "icmp")
    guard.allow(EGRESS, SecurityRule(direction="ingress", protocol=protocol))
    assert (before, _tracked(guard, "icmp")) == (1, 1 if kept else 0)


def _tracked(guard: Guard, protocol: str) -> int:
    """How many flows of a protocol the kernel knows."""
    result = guard.space.do(lambda: Path("/proc/thread-self/net/nf_conntrack").read_text())
    return sum(protocol in line.split() for line in result.splitlines())


def test_what_a_pair_or_an_address_no_longer_covers_ends(guard: Guard) -> None:
    """A connection from another address of a guest's ends with the pair that allowed it, and with no other pair."""
    pair, other = AddressPair(address="10.20.1.0/24"), AddressPair(address="10.20.2.0/24")
    one, two = guard.plug(1, allowed_address_pairs=[pair, other]), guard.plug(2)
    guard.allow(EGRESS, SSH)
    two.space.run("ip", "route", "add", "10.20.1.0/24", "dev", "eth0")
    one.space.run("ip", "addr", "add", "10.20.1.7/32", "dev", "eth0")
    with serving(two, 22) as server:
        client = one.space.do(lambda: socket.create_connection((two.address, 22), PATIENCE, ("10.20.1.7", 0)))
        peer, _ = server.accept()
        with client, peer:
            for pairs, passes in (([pair], True), ([other], False)):
                key = one.port.id
                changed = replace(one.port, allowed_address_pairs=pairs)
                guard.ports[key] = LocalPort(instance_id=key, hostname="vm-1", port=changed)
                guard.apply()
                peer.sendall(b"a")
                client.settimeout(PATIENCE if passes else SHORT)
                if passes:
                    assert client.recv(1) == b"a"
                else:
                    with pytest.raises(TimeoutError):
                        client.recv(1)


def test_a_stateless_group_asks_its_rules_for_every_packet(guard: Guard) -> None:
    one, two = guard.plug(1), guard.plug(2)
    back = SecurityRule(direction="ingress", protocol="tcp", port_range_min=1024, port_range_max=65535)
    with serving(two, 22):
        guard.allow(EGRESS, SSH, stateful=False)
        assert not reaches(one, two, 22), "the answer is not allowed in"
        guard.allow(EGRESS, SSH, back, stateful=False)
        assert reaches(one, two, 22, PATIENCE)


def test_a_stateless_group_elsewhere_changes_nothing_for_an_equal_hardware_address(guard: Guard) -> None:
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, SSH)
    guard.plug(3, net=network(30), groups=(THEIRS,), mac_address=one.port.mac_address)
    guard.allow(EGRESS, group=THEIRS, stateful=False)
    with serving(two, 22):
        assert reaches(one, two, 22, PATIENCE)


def test_connections_of_a_guest_that_has_gone_go_with_it(guard: Guard) -> None:
    """Somebody else may get its address, and its network's number."""
    one, two, other = guard.plug(1), guard.plug(2), guard.plug(3, net=network(30))
    neighbour = guard.plug(4, net=network(30))
    guard.allow(EGRESS, SSH, PING)
    assert pings(one, two.address, PATIENCE)
    assert pings(other, neighbour.address, PATIENCE)
    assert _tracked(guard, "icmp") == 2
    del guard.ports[two.port.id]
    guard.apply()
    assert _tracked(guard, "icmp") == 1
    del guard.networks[network(30).id]
    guard.ports.clear()
    guard.apply()
    assert _tracked(guard, "icmp") == 0


def test_an_agent_that_comes_back_ends_what_is_allowed_no_more_and_nothing_else(guard: Guard) -> None:
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, SSH, PING)
    assert pings(one, two.address, PATIENCE)
    with serving(two, 22) as server:
        client = one.space.do(lambda: socket.create_connection((two.address, 22), PATIENCE))
        peer, _ = server.accept()
        with client, peer:
            guard.filters = Filters(guard.folder, lambda _: SHARE)
            guard.apply()
            assert (_tracked(guard, "icmp"), _tracked(guard, "tcp")) == (1, 1)
            guard.filters = Filters(guard.folder, lambda _: SHARE)
            guard.allow(EGRESS, PING)
            assert (_tracked(guard, "icmp"), _tracked(guard, "tcp")) == (1, 0)


def test_connections_that_could_not_be_ended_are_ended_later(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, PING)
    assert pings(one, two.address, PATIENCE)
    with monkeypatch.context() as patch:
        patch.setattr(applying, "forget_flows", broken)
        with pytest.raises(RetryableHostError):
            guard.allow(EGRESS, SSH)
    assert guard.filters.unfinished
    assert _tracked(guard, "icmp") == 1
    guard.apply()
    assert not guard.filters.unfinished
    assert _tracked(guard, "icmp") == 0


def broken(_refused: object) -> int:
    raise RetryableHostError("The host could not end connections of guests.")


def test_a_port_that_is_switched_off_passes_nothing(guard: Guard) -> None:
    one, two = guard.plug(1), guard.plug(2, enabled=False)
    guard.allow(EGRESS, SSH, PING)
    with serving(two, 22):
        assert not reaches(one, two, 22)


def test_without_port_security_everything_passes(guard: Guard) -> None:
    one, two = guard.plug(1, port_security=False), guard.plug(2, port_security=False)
    with serving(two, 2222):
        assert reaches(one, two, 2222, PATIENCE)


def test_one_bad_rule_neither_opens_nor_blocks_the_others(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = guard.plug(1), guard.plug(2), guard.plug(3, groups=(THEIRS,))
    guard.allow(EGRESS, SSH)
    monkeypatch.setattr("compute_agent.network.filters.groups._protocol", broken_for(7))
    bad = SecurityRule(direction="ingress", protocol="7")
    guard.allow(bad, PING, group=THEIRS)
    guard.filters.check_group(OURS)
    with pytest.raises(RefusedGroupError, match="allow nothing"):
        guard.filters.check_group(THEIRS)
    with serving(two, 22), serving(three, 22):
        assert reaches(one, two, 22, PATIENCE)
        assert not reaches(one, three, 22)
    assert pings(one, three.address, PATIENCE)
    guard.allow(PING, group=THEIRS)
    guard.filters.check_group(THEIRS)


def test_an_interface_whose_own_rules_are_refused_passes_nothing(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    from compute_agent.network.filters import identity  # noqa: PLC0415 - the one that is replaced

    real = identity._as
    monkeypatch.setattr(identity, "_from", identity._from.__wrapped__)  # it remembers what is not replaced
    monkeypatch.setattr(
        identity, "_as",
        lambda source, *, asks: [*real(source, asks=asks), *(["no such match"] if source.mac.endswith("02") else [])],
    )  # fmt: skip
    one, two, three = guard.plug(1), guard.plug(2), guard.plug(3)
    guard.allow(EGRESS, SSH)
    with serving(one, 22), serving(three, 22):
        assert reaches(one, three, 22, PATIENCE)
        assert not reaches(two, three, 22)


@pytest.mark.parametrize("rule", [
    SecurityRule(direction="ingress", protocol="tcp", port_range_min=22, port_range_max=70_000),
    SecurityRule(direction="ingress", protocol="icmp", port_range_min=300),
    SecurityRule(direction="ingress", remote_ip_prefix="2001:db8::/32"),
])  # fmt: skip
def test_a_rule_that_cannot_be_is_reported(guard: Guard, rule: SecurityRule) -> None:
    guard.plug(1)
    guard.allow(EGRESS, rule)
    with pytest.raises(RefusedGroupError):
        guard.filters.check_group(OURS)


def broken_for(number: int) -> object:
    """A renderer that writes what nft does not take."""
    from compute_agent.network.filters import groups  # noqa: PLC0415 - the one that is replaced

    real = groups._protocol

    def render(rule: SecurityRule, version: int) -> list[str]:
        return ["no such match"] if rule.protocol == str(number) else real(rule, version)

    return render


def test_an_address_pair_widens_exactly_that(guard: Guard) -> None:
    pairs = [AddressPair(address="10.20.0.100"), AddressPair(address="10.20.1.0/24")]
    one, two = guard.plug(1, allowed_address_pairs=pairs), guard.plug(2)
    guard.allow(EGRESS, SSH)
    two.space.run("ip", "route", "add", "10.20.1.0/24", "dev", "eth0")
    for address, passes in (("10.20.0.100", True), ("10.20.1.7", True), ("10.20.0.101", False), ("10.20.2.7", False)):
        one.space.run("ip", "addr", "add", f"{address}/32", "dev", "eth0")
        with serving(two, 22):
            assert one.space.connects(two.address, 22, PATIENCE if passes else SHORT, source=address) is passes, address


@pytest.mark.deep
def test_thousands_of_rules_and_hundreds_of_ports(guard: Guard) -> None:
    """One of them counts as the only one would, and a change of it changes nothing else."""
    rules = [
        SecurityRule(direction="ingress", protocol="tcp", port_range_min=at, port_range_max=at)
        for at in range(10_000, 14_000)
    ]
    one, two = guard.plug(1), guard.plug(2)
    first = next(iter(guard.ports.values()))
    for number in range(300):
        key = f"{number:08x}-0000-4000-8000-0000000000ff"
        address = replace(first.port.fixed_ips[0], address=f"10.20.{1 + number // 250}.{1 + number % 250}")
        tap, mac = f"tap{key[:11]}", f"fa:16:3e:99:{number >> 8:02x}:{number & 255:02x}"
        port = replace(first.port, id=key, tap=tap, mac_address=mac, fixed_ips=[address])
        guard.ports[key] = LocalPort(instance_id=key, hostname=f"vm-{number}", port=port)
    guard.allow(EGRESS, *rules)
    with serving(two, 13_999), serving(two, 9_999):
        assert reaches(one, two, 13_999, PATIENCE)
        assert not reaches(one, two, 9_999)
        guard.allow(EGRESS, *rules[:-1])
        assert not reaches(one, two, 13_999)
        guard.allow(EGRESS, *rules)
        assert reaches(one, two, 13_999, PATIENCE)
