"""More servers than a network has addresses, asked for at once: each address goes to one, the others say why not."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connections

from provisioning.compute.models import Instance
from provisioning.jobs import registry
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.cast import verify
from provisioning.network import services
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21, server_body
from tests.support import invariants
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.ports import guest_addresses, guest_ports
from tests.support.scripted_agent import ScriptedAgent

SERVERS, ADDRESSES = 100, 40
CALLERS, WORKERS = 10, 4
WITHIN = 250.0
"""Seconds for all servers to come to rest."""


class Crowd:
    """Callers of the API, workers and agents that do their parts at the same time."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._over = threading.Event()

    def all(self, calls: list[Callable[[], Any]], rest: Callable[[], bool]) -> list[Any]:
        """Make the calls, CALLERS at a time, and let the cloud work until it is at ``rest``; return their statuses."""
        self._over.clear()
        parts = [*[self._work] * WORKERS, *(partial(self._host, agent) for agent in self._cloud.agents.values())]
        with ThreadPoolExecutor(CALLERS + len(parts)) as pool:
            working = [pool.submit(self._closing, part) for part in parts]
            calling = [pool.submit(self._closing, call) for call in calls]
            try:
                answers = [each.result(WITHIN) for each in calling]
                for _ in range(int(WITHIN / 0.05)):
                    if rest() or any(each.done() for each in working):
                        break
                    self._over.wait(0.05)
            finally:
                self._over.set()
            for each in working:
                each.result(WITHIN)
        return [answer.status_code for answer in answers]

    @staticmethod
    def _closing(work: Callable[[], Any]) -> Any:
        try:
            return work()
        finally:
            connections.close_all()

    def _work(self) -> None:
        topics = sorted({each.topic for each in registry.jobs.values()})
        while not self._over.is_set():
            taken = rows.claim(topics, f"worker {threading.get_ident()}")
            if taken is None:
                self._over.wait(0.005)
                continue
            message = verify(taken.text)
            registry.jobs[message.job].run(**message.payload)
            rows.finish(taken.id)

    def _host(self, agent: ScriptedAgent) -> None:
        while not self._over.is_set():
            agent.work()
            self._over.wait(0.005)


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.deep
def test_a_small_network_serves_as_many_as_it_has_addresses(people: People) -> None:
    cloud, alice = Cloud.make(), people.alice
    for name in ("kelvin", "ohm", "tesla"):
        cloud.add_host(name, vcpus=SERVERS, memory_mb=SERVERS * 1024, disk_gb=SERVERS * 2)
    for resource in ("instances", "cores", "ram", "ports", "fixed_ips"):
        set_limit(alice.project_id, resource, -1)
    small = services.create_network(alice.project_id, "small")
    pool = {"start": "10.60.0.10", "end": f"10.60.0.{9 + ADDRESSES}"}
    services.create_subnet(small, "10.60.0.0/24", allocation_pools=[pool], enable_dhcp=False)
    crowd = Crowd(cloud)

    def settled() -> bool:
        return Instance.objects.filter(vm_state__in=("active", "error")).count() == SERVERS

    def ask(number: int) -> Any:
        body = server_body(cloud, name=f"n{number}", networks=[{"uuid": str(small.id)}])
        return Api(alice).post(f"{V21}/servers", body)

    requested = crowd.all([partial(ask, number) for number in range(SERVERS)], settled)
    assert Counter(requested) == {202: SERVERS}
    servers = Api(alice).get(f"{V21}/servers/detail").json()["servers"]
    assert Counter(each["status"] for each in servers) == {"ACTIVE": ADDRESSES, "ERROR": SERVERS - ADDRESSES}
    given = [entry["addr"] for each in servers for entry in each["addresses"].get("small", [])]
    assert sorted(given) == [f"10.60.0.{number}" for number in range(10, 10 + ADDRESSES)]
    assert {"small" in each["addresses"] for each in servers if each["status"] == "ERROR"} == {False}
    reasons = {each["fault"]["message"] for each in servers if each["status"] == "ERROR"}
    assert len(reasons) == 1
    assert "address" in reasons.pop()
    invariants.check()

    def gone() -> bool:
        return not Instance.objects.exclude(vm_state="deleted").exists()

    def end(server: str) -> Any:
        return Api(alice).delete(f"{V21}/servers/{server}")

    assert Counter(crowd.all([partial(end, each["id"]) for each in servers], gone)) == {204: SERVERS}
    invariants.check_empty()
    assert not guest_ports().exists()
    assert not guest_addresses().exists()
    assert {name: usage_of(alice.project_id)[name] for name in ("ports", "fixed_ips", "instances")} == {
        "ports": 0, "fixed_ips": 0, "instances": 0,
    }  # fmt: skip
