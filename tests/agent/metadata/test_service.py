"""The metadata service on real sockets: who asks is told by the network and the address, and nobody takes it all."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.guest_trees import Asker
from compute_agent.metadata import service as module
from compute_agent.metadata.service import MetadataService
from tests.agent.cast import make_spec
from tests.agent.driver_contract import until

OTHER = replace(make_spec(), uuid="11111111-2222-3333-4444-555555555555")


@dataclass
class Guests:
    """Guests by network and address."""

    here: dict[tuple[str, str], InstanceSpec] = field(default_factory=dict)
    posted: dict[str, str] = field(default_factory=dict)
    vendor_data: bytes = b"{}"

    def guest(self, network_id: str, address: str) -> str | None:
        spec = self.here.get((network_id, address))
        return spec.uuid if spec is not None else None

    def asker(self, network_id: str, address: str) -> Asker | None:
        spec = self.here.get((network_id, address))
        if spec is None:
            return None
        return Asker(replace(spec, posted_password=self.posted.get(spec.uuid, "")), spec.ports[0],
                     vendor_data=self.vendor_data)  # fmt: skip

    def post_password(self, asker: Asker, password: str) -> bool:
        if asker.spec.uuid in self.posted:
            return False
        self.posted[asker.spec.uuid] = password
        return True


@pytest.fixture
def guests() -> Guests:
    return Guests()


@pytest.fixture
def service(guests: Guests) -> Iterator[MetadataService]:
    made = MetadataService()
    made.start(guests)
    yield made
    made.close()


def listen(service: MetadataService, network: str) -> int:
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    service.opened(network, [listening])
    return int(listening.getsockname()[1])


def ask(
    port: int, path: str, source: str = "127.0.0.1", method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0))
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_equal_addresses_on_two_networks_are_two_guests(service: MetadataService, guests: Guests) -> None:
    first, second = make_spec(), OTHER
    ports = {name: listen(service, name) for name in ("a", "b")}
    guests.here = {("a", "127.0.0.1"): first, ("b", "127.0.0.1"): second, ("a", "127.0.0.9"): second}
    result = [ask(ports[name], "/latest/meta-data/instance-id")[1] for name in ("a", "b")]
    assert len(set(result)) == 2
    assert ask(ports["a"], "/latest/meta-data/instance-id", source="127.0.0.9")[1] == result[1]


def test_a_stranger_and_a_proxy_s_word_are_not_found(service: MetadataService, guests: Guests) -> None:
    port = listen(service, "a")
    assert ask(port, "/latest/meta-data/")[0] == 404
    guests.here["a", "127.0.0.1"] = make_spec()
    assert ask(port, "/latest/meta-data/")[0] == 200
    headers = {"X-Forwarded-For": "127.0.0.1"}
    assert ask(port, "/latest/meta-data/", **headers)[0] == 404


def test_a_password_is_posted_once(service: MetadataService, guests: Guests) -> None:
    port, spec = listen(service, "a"), make_spec()
    guests.here["a", "127.0.0.1"] = spec
    assert ask(port, "/openstack/latest/password") == (200, b"")
    assert ask(port, "/openstack/latest/password", method="POST", body=b"x" * 1025)[0] == 400
    assert ask(port, "/openstack/2012-08-10/password", method="POST", body=b"x")[0] == 404
    assert ask(port, "/openstack/latest/password", method="POST", body=b"c2VhbGVk")[0] == 200
    assert ask(port, "/openstack/latest/password", method="POST", body=b"other")[0] == 409
    assert ask(port, "/openstack/latest/password") == (200, b"c2VhbGVk")
    assert guests.posted == {spec.uuid: "c2VhbGVk"}
    assert ask(port, "/openstack/latest/meta_data.json", method="POST", body=b"x")[0] == 404
    assert ask(port, "/openstack/latest/password", method="PUT", body=b"x")[0] == 405


TTL, TOKEN = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"
SECRET = "/latest/meta-data/instance-id"


def put(port: int, ttl: str | None, source: str = "127.0.0.1", **headers: str) -> tuple[int, bytes]:
    requested = {TTL: ttl} if ttl is not None else {}
    return ask(port, "/latest/api/token", source, "PUT", None, **requested, **headers)


def test_metadata_are_read_with_a_token(service: MetadataService, guests: Guests) -> None:
    port = listen(service, "a")
    guests.here = {("a", "127.0.0.1"): make_spec(), ("a", "127.0.0.9"): OTHER}
    status, token = put(port, "60")
    assert status == 200
    assert ask(port, SECRET, "127.0.0.1", "GET", None, **{TOKEN: token.decode()}) == ask(port, SECRET)
    for wrong in ("x", "", "ö", token.decode()[:-4], put(port, "60", source="127.0.0.9")[1].decode()):
        assert ask(port, SECRET, "127.0.0.1", "GET", None, **{TOKEN: wrong})[0] == 401
    assert [put(port, ttl)[0] for ttl in (None, "", "0", "-1", "x", "21601", "9" * 40)] == [400] * 7
    assert put(port, "21600")[0] == 200
    assert put(port, "60", "127.0.0.1", **{"X-Forwarded-For": "127.0.0.1"})[0] == 404
    assert put(port, "60", source="127.0.0.3")[0] == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", SECRET),
        ("HEAD", SECRET),
        ("GET", "/"),
        ("GET", "/openstack/latest/meta_data.json"),
        ("GET", "/openstack/latest/password"),
        ("POST", "/openstack/latest/password"),
    ],
)
def test_nothing_is_read_without_a_token_where_one_is_required(
    service: MetadataService, guests: Guests, method: str, path: str
) -> None:
    port = listen(service, "a")
    guests.here["a", "127.0.0.1"] = replace(make_spec(), metadata_token=True)
    body = b"c2VhbGVk" if method == "POST" else None
    assert ask(port, path, method=method, body=body)[0] == 401
    assert guests.posted == {}
    token = put(port, "60")[1].decode()
    assert ask(port, path, "127.0.0.1", method, body, **{TOKEN: token})[0] == 200


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_token_passes_only_so_many_machines(
    service: MetadataService, guests: Guests, monkeypatch: pytest.MonkeyPatch, family: socket.AddressFamily
) -> None:
    passed: list[tuple[object, int]] = []
    usual = module._set_hops

    def let_pass(connection: socket.socket, hops: int) -> None:
        usual(connection, hops)
        level = (socket.IPPROTO_IP, socket.IP_TTL)
        if connection.family == socket.AF_INET6:
            level = (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS)
        passed.append((connection.family, connection.getsockopt(*level)))

    monkeypatch.setattr(module, "_set_hops", let_pass)
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    listening = socket.create_server((address, 0), family=family)
    service.opened("a", [listening])
    guests.here["a", address] = replace(make_spec(), metadata_hops=3)
    connection = http.client.HTTPConnection(address, listening.getsockname()[1], timeout=60)
    connection.request("PUT", "/latest/api/token", headers={TTL: "60"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers[TTL]) == (200, "60")
    assert answer.read()
    connection.close()
    assert passed == [(family, 3)]


def test_a_network_that_is_gone_is_not_listened_on(service: MetadataService, guests: Guests) -> None:
    port = listen(service, "a")
    guests.here["a", "127.0.0.1"] = make_spec()
    assert ask(port, "/latest/meta-data/")[0] == 200
    service.closed("a")
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/")


def test_one_guest_has_one_share_by_all_its_addresses(
    service: MetadataService, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are answered meanwhile, and the guest itself once it has let go."""
    monkeypatch.setattr(module, "SECONDS", 600.0)
    ports = listen(service, "a"), listen(service, "b")
    sources = [(ports[0], "127.0.0.1"), (ports[0], "127.0.0.2"), (ports[1], "127.0.0.3"), (ports[1], "127.0.0.4")]
    spec = make_spec()
    guests.here = {("ab"[ports.index(port)], source): spec for port, source in sources}
    guests.here["a", "127.0.0.9"] = OTHER
    with contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(source, 0)))
            for _ in range(module.SHARE)
            for port, source in sources
        ]
        over = len(slow) - module.SHARE
        refused: set[socket.socket] = set()
        while len(refused) < over:
            readable = select.select([each for each in slow if each not in refused], [], [], 60)[0]
            assert readable, f"{len(refused)} of {over} are refused"
            refused.update(each for each in readable if each.recv(1) == b"")
        assert ask(ports[0], "/latest/meta-data/", source="127.0.0.9")[0] == 200
        held = [each for each in slow if each not in refused]
        for each in held:
            each.sendall(b"GET /latest/meta-data/ HTTP/1.1\r\n\r\n")
            assert each.recv(12) == b"HTTP/1.1 200"


def test_no_worker_waits_for_a_guest(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for one that says nothing or half a request, nor for one that does not read."""
    monkeypatch.setattr(module, "WORKERS", 1)
    guests.here = {("a", "127.0.0.1"): make_spec(), ("a", "127.0.0.9"): OTHER}
    guests.vendor_data = bytes(1 << 24)
    service = MetadataService()
    port = listen(service, "a")
    service.start(guests)
    try:
        slow = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(3)]
        slow[1].sendall(b"POST /openstack/latest/password HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf")
        slow[2].sendall(b"GET /openstack/latest/vendor_data.json HTTP/1.1\r\n\r\n")
        assert slow[2].recv(12) == b"HTTP/1.1 200"
        assert ask(port, "/latest/meta-data/", source="127.0.0.9")[0] == 200
        for each in slow:
            each.close()
    finally:
        service.close()


@pytest.mark.parametrize("seconds", [0.2, 60])
def test_a_request_that_does_not_end_is_broken_off(
    service: MetadataService, guests: Guests, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """One that comes drop by drop when its time is over, one that comes fast when it is too long."""
    monkeypatch.setattr(module, "SECONDS", seconds)
    guests.here["a", "127.0.0.1"] = make_spec()
    part = b"X" if seconds < 1 else b"X" * module.MOST_HEAD
    with socket.create_connection(("127.0.0.1", listen(service, "a")), timeout=60) as endless:
        until(lambda: not goes_on(endless, part), "the end of a connection", 60)


def goes_on(connection: socket.socket, part: bytes) -> bool:
    """Say more, and whether the other side still listens."""
    try:
        connection.sendall(part)
        return not select.select([connection], [], [], 0)[0] or connection.recv(1) != b""
    except ConnectionError:
        return False


def test_listing_and_type(service: MetadataService, guests: Guests) -> None:
    port = listen(service, "a")
    guests.here["a", "127.0.0.1"] = make_spec()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("HEAD", "/openstack/latest/meta_data.json")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Content-Type"), answer.read()) == (
        200,
        "application/json; charset=UTF-8",
        b"",
    )
    connection.close()
