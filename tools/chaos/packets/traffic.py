"""Sends packets between guests and the outside; reports packets that pass although they must not, and packets that do
not pass although they must.
"""

from __future__ import annotations

import ipaddress
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from provisioning.compute.states import PowerState
from provisioning.doctor.finding import Finding
from tools.chaos.checks.journals import Seen
from tools.chaos.checks.wrongs import wrong
from tools.chaos.clients.client import Client
from tools.chaos.packets import probes
from tools.chaos.packets.hosts import Hosts
from tools.chaos.packets.picture import LISTS, PING, End, Flow, Picture, Row

T = TypeVar("T")

API = "/network/v2.0"
COMPUTE = "/compute/v2.1"
MOST_GUESTS, MOST_PAIRS, MOST_SPOOFING = 16, 60, 12
AT_ONCE = 24
CLOSED = 19_999
"""A TCP port that is not opened by any rule of the run."""
SSH = 22
MOST_PORTS = 3
"""Maximum number of open ports of a guest that are tried."""
SOON, LATE = 0.8, 30.0
"""Seconds after which a packet that must not pass counts as blocked, and seconds within which a packet that must pass
has to arrive: a busy machine takes several seconds to answer.
"""
OUTSIDE_PORT = 80
MOST_CALLERS = 2
"""Maximum number of guests that try one floating IP."""
ELSEWHERE = "198.51.100.7"
"""An external address that no rule of the run names."""


@dataclass(frozen=True)
class Guest:
    """An address of a running guest, with the host, the namespace of the interface, and the server's project."""

    end: End
    host: str
    space: str
    project: str

    def __str__(self) -> str:
        return f"{self.end.address} (port {self.end.port['id'][:8]} on {self.host})"


@dataclass
class Traffic:
    """One round of packets between the guests that are running at its beginning."""

    operator: Client
    hosts: Hosts
    seen: Seen
    chance: random.Random
    note: Callable[[str], None]
    sent: dict[str, int] = field(default_factory=dict)
    """Name of a kind of attempt → number of attempts."""

    def wrongs(self) -> list[Finding]:
        """Send all packets, and return the differences from the records."""
        self._picture = Picture(self._records())
        self._outside = str(ipaddress.ip_interface(self.hosts.places.outside[0]).ip)
        guests = self._sample()
        found = list(self._configured(guests))
        self._listeners = probes.Listeners()
        try:
            for guest in guests:
                for port in self._ports_of(guest):
                    self._listeners.add(guest.space, guest.end.address, port, guest.end.port["id"])
            self._listeners.add(self.hosts.places.world, self._outside, OUTSIDE_PORT, "outside")
            self._listeners.start()
            with ThreadPoolExecutor(AT_ONCE) as pool:
                works = list(self._works(guests))
                found += [one for all_of in pool.map(lambda work: list(work()), works) for one in all_of]
        finally:
            self._listeners.close()
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.sent.items()))
        self.note(f"Packets between {len(guests)} interfaces: {counts or 'none'}.")
        return found

    def _works(self, guests: Sequence[Guest]) -> Iterator[Callable[[], Iterator[Finding]]]:
        """Yield the attempts as functions; each function yields the errors that it finds."""
        pairs = self._pairs(guests)
        for pair in pairs:
            yield partial(self._between, *pair)
        for guest in guests:
            yield partial(self._to_the_outside, guest)
            yield partial(self._metadata, guest)
        yield from self._by_floating_ips({(each.end.port["id"], each.end.address): each for each in guests})
        for pair in [each for each in pairs if self._may_spoof(*each)][:MOST_SPOOFING]:
            yield partial(self._spoofed, *pair)

    def _by_floating_ips(self, guests: Mapping[tuple[str, str], Guest]) -> Iterator[Callable[[], Iterator[Finding]]]:
        """Yield the attempts to reach guests by floating IPs and port forwardings. The keys of ``guests`` are port and
        address.
        """
        for floating in self._picture.floating:
            target = guests.get((floating["port_id"], floating["fixed_ip_address"]))
            if target is not None:
                yield partial(self._from_outside, floating, target)
                others = [each for each in guests.values() if each.space != target.space]
                for other in self.chance.sample(others, min(len(others), MOST_CALLERS)):
                    yield partial(self._from_a_guest, other, floating, target)
            for forward in floating["port_forwardings"]:
                target = guests.get((forward["internal_port_id"], forward["internal_ip_address"]))
                if target is not None:
                    yield partial(self._forwarded, floating, forward, target)

    # ----- what there is --------------------------------------------------------------------------------------------

    def _records(self) -> Mapping[str, Sequence[Row]]:
        records = {name: self._listed(f"{API}/{name}") for name in LISTS}
        for floating in records["floatingips"]:
            path = f"{API}/floatingips/{floating['id']}/port_forwardings"
            floating["port_forwardings"] = self._listed(path) if floating["port_id"] is None else []
        return records

    def _listed(self, path: str) -> list[dict[str, Any]]:
        answer = self.operator.call("GET", path)
        if not answer.accepted:
            raise LookupError(f"{path} was answered {answer.status} {answer.words}")
        (rows,) = (value for value in answer.body.values() if isinstance(value, list))
        return rows

    def _sample(self) -> list[Guest]:
        """Return a sample of the addresses of running guests: from every network, host and project, with and without a
        floating IP.
        """
        servers = {row["id"]: row for row in self._listed(f"{COMPUTE}/servers/detail?all_tenants=1&status=ACTIVE")}
        leading = {row["port_id"] for row in self._picture.floating if row["port_id"]}
        leading |= {each["internal_port_id"] for row in self._picture.floating for each in row["port_forwardings"]}
        kinds: dict[tuple[object, ...], list[Guest]] = {}
        for end in self._picture.ends():
            host, domain = self.seen.domains.get(end.server, ("", {}))
            if end.server not in servers or domain.get("power") != PowerState.RUNNING:
                continue
            guest = Guest(end, host, self.hosts.space(host, end.port["id"]), servers[end.server]["tenant_id"])
            kinds.setdefault((end.network, host, guest.project, end.port["id"] in leading), []).append(guest)
        for each in kinds.values():
            each.sort(key=lambda guest: guest.end.address)
            self.chance.shuffle(each)
        addressed = [kind for kind in sorted(kinds, key=str) if kind[3]]
        found = _in_turn([kinds[kind] for kind in addressed], MOST_GUESTS // 2)
        networks: dict[str, list[list[Guest]]] = {}
        for kind in sorted(kinds, key=str):
            networks.setdefault(str(kind[0]), []).append(kinds[kind])
        of_networks = [_in_turn(each, MOST_GUESTS) for each in networks.values()]
        return found + _in_turn(of_networks, MOST_GUESTS - len(found), found)

    def _pairs(self, guests: Sequence[Guest]) -> list[tuple[Guest, Guest]]:
        """Return pairs of source and target: in equal numbers on one network, connected by a router, and
        not connected.
        """
        pairs = [(one, other) for one in guests for other in guests if one.space != other.space]
        self.chance.shuffle(pairs)
        kinds: dict[tuple[bool, bool], list[tuple[Guest, Guest]]] = {}
        for one, other in pairs:
            kind = (one.end.network == other.end.network, self._picture.is_routed(one.end, other.end))
            kinds.setdefault(kind, []).append((one, other))
        return _in_turn([kinds[kind] for kind in sorted(kinds)], MOST_PAIRS)

    def _ports_of(self, guest: Guest) -> list[int]:
        """Return the TCP ports that a guest listens on: ``CLOSED``, SSH, the ports of its port forwardings, and some of
        the ports that its rules open.
        """
        rules = [rule for group in guest.end.port["security_groups"] for rule in self._picture.rules[group]]
        opened = {int(rule["port_range_max"]) for rule in rules if rule["protocol"] == "tcp" and rule["port_range_max"]}
        forwarded = {
            int(each["internal_port"])
            for row in self._picture.floating
            for each in row["port_forwardings"]
            if each["internal_port_id"] == guest.end.port["id"]
        }
        return list(dict.fromkeys([CLOSED, SSH, *sorted(forwarded), *sorted(opened)[-MOST_PORTS:]]))

    # ----- DHCP and metadata ----------------------------------------------------------------------------------------

    def _configured(self, guests: Sequence[Guest]) -> Iterator[Finding]:
        """Let every guest request its address and routes from DHCP, and configure its interface with the offer."""

        def configure(guest: Guest) -> Iterator[Finding]:
            port, subnet = guest.end.port, self._picture.subnet(guest.end)
            length = ipaddress.ip_network(subnet["cidr"]).prefixlen
            routes: Sequence[tuple[str, str]] = ()
            if subnet["enable_dhcp"]:
                self._count("DHCP offers")
                offered = self._soon(partial(probes.offer, guest.space, port["mac_address"]))
                own = {each["ip_address"] for each in port["fixed_ips"]}
                if offered is None or offered.address not in own:
                    what = f"is offered {offered.address}" if offered else "is offered nothing"
                    yield wrong(guest.end.server, f"{guest} {what} by DHCP.")
                routes = offered.routes if offered else ()
            addresses = [
                f"{each['ip_address']}/{length}" for each in port["fixed_ips"] if ":" not in each["ip_address"]
            ]
            probes.configure(guest.space, addresses, routes)

        one_each = {guest.space: guest for guest in guests}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for found in pool.map(lambda guest: list(configure(guest)), one_each.values()):
                yield from found

    def _metadata(self, guest: Guest) -> Iterator[Finding]:
        self._count("metadata")
        body = self._soon(partial(probes.asked, guest.space, "/openstack/latest/meta_data.json"))
        reported = json.loads(body)["uuid"] if body else "nobody"
        if reported != guest.end.server:
            yield wrong(guest.end.server, f"{guest} is {reported} according to the metadata service.")

    # ----- between guests -------------------------------------------------------------------------------------------

    def _between(self, source: Guest, target: Guest) -> Iterator[Finding]:
        """Try ICMP, two of the ports that the target's rules open, and a closed port."""
        for flow in (PING, *(Flow("tcp", port) for port in {CLOSED, *self._ports_of(target)[-2:]})):
            should = self._picture.passes(source.end, target.end, flow)
            if flow == PING and not should and self._is_elsewhere(source, target):
                continue  # another guest has the same address: only TCP shows which of them answers
            routed = should and source.end.network != target.end.network
            self._count("flows through routers" if routed else "flows that pass" if should else "flows that do not")
            does = self._reaches(source.space, source.end.address, target.end, target.end.address, flow, should=should)
            if does != should:
                yield self._finding(target, f"{flow} from {source} to {target}", should=should)

    def _is_elsewhere(self, source: Guest, target: Guest) -> bool:
        """Return whether another guest with the target's address may be reachable from the source."""
        return any(
            each.address == target.end.address and each != target.end and self._picture.is_routed(source.end, each)
            for each in self._picture.ends()
        )

    def _reaches(self, space: str, source: str | None, target: End, address: str, flow: Flow, *, should: bool) -> bool:
        def once(patience: float) -> bool:
            if flow == PING:
                return probes.ping(space, source, address, patience)
            answered = probes.dial(space, source, (address, flow.port), patience)
            return answered is not None and answered[0] == target.port["id"]

        return bool(self._soon(once)) if should else once(SOON)

    def _may_spoof(self, source: Guest, target: Guest) -> bool:
        flow = Flow("udp", CLOSED)
        same = source.end.network == target.end.network
        return same and source.end.port["port_security_enabled"] and self._picture.passes(source.end, target.end, flow)

    def _spoofed(self, source: Guest, target: Guest) -> Iterator[Finding]:
        """Send frames with another guest's IP address, with another MAC address, and with the guest's own addresses.
        Only the last frame must arrive.
        """
        self._count("spoofed frames", 2)
        other_mac = "fa:16:3e:00:00:01"
        to = (target.end.port["mac_address"], target.end.address, CLOSED)
        own = (source.end.port["mac_address"], source.end.address, CLOSED)
        others = self._picture.members(source.end.port["security_groups"][0], target.end) - {source.end.address}
        network = ipaddress.ip_network(self._picture.subnet(source.end)["cidr"])
        another = next(iter(sorted(others)), str(network[-2]))
        word = self.chance.randbytes(8).hex().encode()
        frames = {
            b"address": probes.udp_frame((own[0], another, CLOSED), to, word + b" address"),
            b"hardware": probes.udp_frame((other_mac, own[1], CLOSED), to, word + b" hardware"),
            b"own": probes.udp_frame(own, to, word + b" own"),
        }
        with probes.sniffing(source.space) as sender, probes.sniffing(target.space) as listener:
            came: set[bytes] = set()

            def wanted(frame: bytes) -> bool:
                came.update(kind for kind in frames if word + b" " + kind in frame)
                return b"own" in came

            for _ in range(3):
                for frame in frames.values():
                    sender.send(frame)
                if probes.hears(listener, wanted, LATE / 3):
                    break
        if b"own" not in came:
            yield self._finding(target, f"UDP {CLOSED} from {source} to {target}", should=True)
        if b"address" in came:
            yield wrong(
                target.end.server, f"{source} reaches {target} with the address {another}, which is not its own."
            )
        if b"hardware" in came:
            yield wrong(target.end.server, f"{source} reaches {target} with another hardware address than its own.")

    # ----- outside --------------------------------------------------------------------------------------------------

    def _to_the_outside(self, guest: Guest) -> Iterator[Finding]:
        self._count("ways out")
        addresses = self._picture.leaves(guest.end, Flow("tcp", OUTSIDE_PORT), self._outside)

        def once(patience: float) -> tuple[str, str] | None:
            return probes.dial(guest.space, guest.end.address, (self._outside, OUTSIDE_PORT), patience)

        answered = self._soon(once) if addresses else once(SOON)
        if not addresses and answered:
            yield self._finding(guest, f"TCP {OUTSIDE_PORT} from {guest} to the outside", should=False)
        elif addresses and not answered:
            yield self._finding(guest, f"TCP {OUTSIDE_PORT} from {guest} to the outside", should=True)
        elif answered and answered[1] not in addresses:
            expected = " or ".join(sorted(addresses))
            yield wrong(guest.end.server, f"{guest} is seen outside as {answered[1]}, and should be as {expected}.")

    def _from_outside(self, floating: Row, guest: Guest) -> Iterator[Finding]:
        address = floating["floating_ip_address"]
        for flow in (PING, *(Flow("tcp", port) for port in self._ports_of(guest))):
            should = self._picture.enters(floating, guest.end, flow, self._outside)
            self._count("flows from outside")
            does = self._reaches(self.hosts.places.world, self._outside, guest.end, address, flow, should=should)
            if does != should:
                yield self._finding(guest, f"{flow} from outside to {address} of {guest}", should=should)

    def _from_a_guest(self, source: Guest, floating: Row, target: Guest) -> Iterator[Finding]:
        """Try a floating IP from a guest. The target sees the guest's external address, so rules that name a remote
        group do not match.
        """
        address = floating["floating_ip_address"]
        for flow in (PING, *(Flow("tcp", port) for port in self._ports_of(target)[:1] + self._ports_of(target)[-1:])):
            self._count("flows to floating IPs")
            is_routed = self._picture.leaves(source.end, flow, address)
            should = bool(is_routed) and self._picture.enters(floating, target.end, flow, ELSEWHERE)
            does = self._reaches(source.space, source.end.address, target.end, address, flow, should=should)
            if does != should:
                yield self._finding(target, f"{flow} from {source} to {address} of {target}", should=should)

    def _forwarded(self, floating: Row, forward: Row, guest: Guest) -> Iterator[Finding]:
        if forward["protocol"] != "tcp" or forward["internal_port"] not in self._ports_of(guest):
            return
        self._count("port forwardings")
        address, flow = floating["floating_ip_address"], Flow("tcp", forward["external_port"])
        inner = Flow("tcp", forward["internal_port"])
        should = self._picture.enters(floating, guest.end, inner, self._outside)
        does = self._reaches(self.hosts.places.world, self._outside, guest.end, address, flow, should=should)
        if does != should:
            what = f"{flow} from outside to {address}, which is forwarded to {inner} of {guest},"
            yield self._finding(guest, what, should=should)

    # ----- words ----------------------------------------------------------------------------------------------------

    def _count(self, name: str, count: int = 1) -> None:
        self.sent[name] = self.sent.get(name, 0) + count

    @staticmethod
    def _finding(guest: Guest, what: str, *, should: bool) -> Finding:
        how = (
            "does not pass, and the records say that it does"
            if should
            else "passes, and the records say that it must not"
        )
        return wrong(guest.end.server, f"{what} {how}.")

    @staticmethod
    def _soon(work: Callable[[float], T]) -> T:
        """Call ``work`` until its result is true or ``LATE`` seconds have passed; each call may take twice as long as
        the previous one.
        """
        deadline, patience = time.monotonic() + LATE, SOON
        while not (answer := work(patience)) and time.monotonic() < deadline:
            time.sleep(0.1)
            patience *= 2
        return answer


def _in_turn(among: Sequence[Sequence[T]], most: int, without: Sequence[T] = ()) -> list[T]:
    """Return up to ``most`` elements of the sequences, one of each sequence in turn, except those in ``without``."""
    taken = [one for each in zip_longest(*among) for one in each if one is not None and one not in without]
    return taken[:most]
