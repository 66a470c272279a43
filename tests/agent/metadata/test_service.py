"""The metadata service on real sockets: who asks is told by the network and the address, and nobody takes it all."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.metadata import service as module
from compute_agent.metadata.service import MetadataService
from compute_agent.metadata.trees import Asker
from tests.agent.cast import make_spec


@dataclass
class Guests:
    """Guests by network and address."""

    here: dict[tuple[str, str], InstanceSpec] = field(default_factory=dict)
    posted: dict[str, str] = field(default_factory=dict)

    def asker(self, network_id: str, address: str) -> Asker | None:
        spec = self.here.get((network_id, address))
        if spec is None:
            return None
        return Asker(replace(spec, posted_password=self.posted.get(spec.uuid, "")), spec.ports[0])

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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5, source_address=(source, 0))
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_equal_addresses_on_two_networks_are_two_guests(service: MetadataService, guests: Guests) -> None:
    first, second = make_spec(), replace(make_spec(), uuid="11111111-2222-3333-4444-555555555555")
    ports = {name: listen(service, name) for name in ("a", "b")}
    guests.here = {("a", "127.0.0.1"): first, ("b", "127.0.0.1"): second, ("a", "127.0.0.9"): second}
    found = [ask(ports[name], "/latest/meta-data/instance-id")[1] for name in ("a", "b")]
    assert len(set(found)) == 2
    assert ask(ports["a"], "/latest/meta-data/instance-id", source="127.0.0.9")[1] == found[1]


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


def test_a_network_that_is_gone_is_not_listened_on(service: MetadataService, guests: Guests) -> None:
    port = listen(service, "a")
    guests.here["a", "127.0.0.1"] = make_spec()
    assert ask(port, "/latest/meta-data/")[0] == 200
    service.closed("a")
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/")


def test_one_guest_has_its_share_and_others_are_answered(
    service: MetadataService, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listen(service, "a")
    guests.here = {("a", "127.0.0.1"): make_spec(), ("a", "127.0.0.2"): make_spec()}
    slow = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(module.SHARE + 3)]
    try:
        deadline = time.monotonic() + 5
        closed = 0
        while closed < 3 and time.monotonic() < deadline:
            closed = 0
            for each in slow:
                each.settimeout(0.05)
                try:
                    closed += each.recv(1) == b""
                except TimeoutError:
                    continue
        assert closed == 3
        assert ask(port, "/latest/meta-data/", source="127.0.0.2")[0] == 200
        monkeypatch.setattr(module, "SECONDS", 0.1)  # now the time of those that say nothing is over
        for each in slow[: module.SHARE]:
            each.settimeout(5)
            assert each.recv(1) == b""
    finally:
        for each in slow:
            each.close()


def test_listing_and_type(service: MetadataService, guests: Guests) -> None:
    port = listen(service, "a")
    guests.here["a", "127.0.0.1"] = make_spec()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("HEAD", "/openstack/latest/meta_data.json")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Content-Type"), answer.read()) == (
        200,
        "application/json; charset=UTF-8",
        b"",
    )
    connection.close()
