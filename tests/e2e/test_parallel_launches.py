"""Launches sent all at once to a cloud of three simulated hosts: quotas exact, no room taken twice, nothing left."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.one_machine import OneMachine, running, wait_for

pytestmark = [pytest.mark.compat, pytest.mark.deep]
QUOTA = 10
ASKED = 14
"""Launches of each project; its quota is smaller."""


@pytest.fixture
def simulated() -> Iterator[OneMachine]:
    with running(simulate=3) as cloud:
        yield cloud


class Client:
    """One project's token and the Compute API, without a library between."""

    def __init__(self, cloud: OneMachine, name: str) -> None:
        self.base = cloud.url
        scope = {"project": {"name": name, "domain": {"id": "default"}}}
        user = {"name": name, "domain": {"id": "default"}, "password": cloud.password(name)}
        identity = {"methods": ["password"], "password": {"user": user}}
        _, headers, _ = self.send("POST", "/identity/v3/auth/tokens", {"auth": {"identity": identity, "scope": scope}})
        self.token = headers["X-Subject-Token"]

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any, Any]:
        request = urllib.request.Request(self.base + path, method=method)  # noqa: S310 - our own address
        request.add_header("Content-Type", "application/json")
        if token := getattr(self, "token", None):
            request.add_header("X-Auth-Token", token)
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=60) as answer:  # noqa: S310
                return answer.status, answer.headers, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.headers, json.loads(refusal.read() or b"{}")

    def get(self, path: str) -> Any:
        status, _, body = self.send("GET", path)
        assert status == 200, body
        return body

    def launch(self, image: str, flavor: str, number: int) -> int:
        server = {"name": f"n{number}", "imageRef": image, "flavorRef": flavor}
        status, _, body = self.send("POST", "/compute/v2.1/servers", {"server": server})
        assert status == 202 or "Quota exceeded for instances" in body["forbidden"]["message"], body
        return status

    def servers(self) -> list[Any]:
        return list(self.get("/compute/v2.1/servers/detail")["servers"])


def test_twenty_eight_at_once_become_exactly_twenty(simulated: OneMachine) -> None:
    clients = [Client(simulated, "demo"), Client(simulated, "admin")]
    [image] = [result["id"] for result in clients[0].get("/image/v2/images")["images"]]
    flavors = {result["name"]: result["id"] for result in clients[0].get("/compute/v2.1/flavors")["flavors"]}
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(
                lambda number: (number % 2, clients[number % 2].launch(image, flavors["m1.nano"], number)),
                range(2 * ASKED),
            )
        )
    assert Counter(answers) == {(0, 202): QUOTA, (0, 403): ASKED - QUOTA, (1, 202): QUOTA, (1, 403): ASKED - QUOTA}

    def all_active() -> bool:
        return all(server["status"] == "ACTIVE" for client in clients for server in client.servers())

    wait_for("all are active", all_active)
    result = [server for client in clients for server in client.servers()]
    assert len(result) == 2 * QUOTA
    addresses = [
        entry["addr"] for server in result for interfaces in server["addresses"].values() for entry in interfaces
    ]
    assert len(set(addresses)) == 2 * QUOTA, "an address was given twice"
    hypervisors = clients[1].get("/compute/v2.1/os-hypervisors/detail")["hypervisors"]
    assert len(hypervisors) == 3
    assert sum(host["vcpus_used"] for host in hypervisors) == 2 * QUOTA
    for client in clients:
        limits = client.get("/compute/v2.1/limits")["limits"]["absolute"]
        assert (limits["totalInstancesUsed"], limits["totalCoresUsed"], limits["totalRAMUsed"]) == (10, 10, 960)

    with ThreadPoolExecutor(16) as pool:
        gone = list(
            pool.map(
                lambda item: item[0].send("DELETE", f"/compute/v2.1/servers/{item[1]['id']}")[0],
                [(client, server) for client in clients for server in client.servers()] * 2,
            )
        )
    assert gone.count(204) >= 2 * QUOTA
    assert set(gone) <= {204, 404}
    wait_for("all are gone", lambda: not any(client.servers() for client in clients))
    hypervisors = clients[1].get("/compute/v2.1/os-hypervisors/detail")["hypervisors"]
    assert sum(host["vcpus_used"] for host in hypervisors) == 0
    for client in clients:
        assert client.get("/compute/v2.1/limits")["limits"]["absolute"]["totalInstancesUsed"] == 0
        assert client.get("/network/v2.0/ports?device_owner=compute:nova")["ports"] == []
