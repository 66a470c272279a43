"""Measures inside Django what networking costs the records; ``bench.networking.command`` runs it on empty databases."""

from __future__ import annotations

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from django.db import connections

from provisioning.identity.services.domains import ensure_domain
from provisioning.identity.services.projects import ensure_project
from provisioning.network.models import FixedIP, Network
from provisioning.network.services import allocate, create_network, create_subnet
from provisioning.quotas.services.limits import set_limit

LAUNCHES, SENDERS = 500, 20


def _network() -> Network:
    project = ensure_project(ensure_domain("default", "Default"), "bench")
    for resource in ("ports", "fixed_ips"):
        set_limit(project.id, resource, -1)
    network = create_network(project.id, "bench")
    create_subnet(network, "10.0.0.0/16")
    return network


def main() -> None:
    """Print the seconds of each allocation, one after the other and of LAUNCHES by SENDERS at a time, as JSON."""
    network = _network()

    def take(_: int) -> float:
        began = time.perf_counter()
        allocate(uuid.uuid4(), network.project_id, [{"network_id": str(network.id)}], [], "bench", "nova")
        return time.perf_counter() - began

    def share(sender: int) -> list[float]:
        try:
            return [take(number) for number in range(sender, LAUNCHES, SENDERS)]
        finally:
            connections.close_all()

    alone = [take(number) for number in range(30)]
    began = time.perf_counter()
    with ThreadPoolExecutor(SENDERS) as pool:
        each = [seconds for spent in pool.map(share, range(SENDERS)) for seconds in spent]
    whole = time.perf_counter() - began
    given = list(FixedIP.objects.filter(subnet__network=network).values_list("address", flat=True))
    if len(given) != len(set(given)) or len(given) < LAUNCHES + 30:
        raise SystemExit(f"{len(given)} addresses, {len(set(given))} different ones")
    print(json.dumps({"alone": alone, "each": each, "whole": [whole]}))
