"""Measures the database's part of networking inside Django.

``tools.bench.networking.command`` runs it on empty databases.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from django.db import connections

from provisioning.identity.services.domains import ensure_domain
from provisioning.identity.services.projects import ensure_project
from provisioning.network.models import FixedIP, Network
from provisioning.network.services import allocate, create_network, create_subnet
from provisioning.quotas.services.limits import set_limit

TOGETHER_WITHIN = 300.0
"""Seconds until all threads are ready."""


def _network() -> Network:
    project = ensure_project(ensure_domain("default", "Default"), "bench")
    for resource in ("ports", "fixed_ips"):
        set_limit(project.id, resource, -1)
    network = create_network(project.id, "bench")
    create_subnet(network, "10.0.0.0/16")
    return network


def main(launches: int, alone: int) -> None:
    """Print as JSON the seconds of allocations one after the other, and of ``launches`` threads that begin together."""
    network = _network()
    gate = threading.Barrier(launches + 1)

    def take() -> float:
        began = time.perf_counter()
        allocate(uuid.uuid4(), network.project_id, [{"network_id": str(network.id)}], [], "bench", "nova")
        return time.perf_counter() - began

    def come(_: int) -> float:
        gate.wait(TOGETHER_WITHIN)
        try:
            return take()
        finally:
            connections.close_all()

    single = [take() for _ in range(alone)]
    with ThreadPoolExecutor(launches) as pool:
        coming = [pool.submit(come, number) for number in range(launches)]
        gate.wait(TOGETHER_WITHIN)
        began = time.perf_counter()
        each = [one.result() for one in coming]
    whole = time.perf_counter() - began
    given = list(FixedIP.objects.filter(subnet__network=network).values_list("address", flat=True))
    if len(given) != len(set(given)) or len(given) < launches + alone:
        raise SystemExit(f"{len(given)} addresses, {len(set(given))} different ones")
    print(json.dumps({"alone": single, "each": each, "whole": [whole]}))
