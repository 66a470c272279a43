"""Measures lists of servers inside Django; `tools.bench.in_django.servers` runs it on an empty database."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from provisioning.compute.models import Instance, InstanceFault
from provisioning.hosts.models import Host
from provisioning.identity.encryption.keys import TOKENS
from provisioning.identity.models import Project, User
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.catalog import ensure_catalog
from provisioning.identity.services.domains import ensure_domain
from provisioning.identity.services.projects import ensure_project
from provisioning.identity.services.roles import BUILT_IN, ensure_role
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.users import ensure_user
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup, Subnet

REPEATS = 15
MANY, MOST = 1_000, 10_000
DETAIL = "/compute/v2.1/servers/detail"
FAULTY = 20
"""Every 20th server is in ERROR, and shows its fault."""


def stand() -> tuple[User, Project]:
    """Create a user in a project, and the keys of a new cloud."""
    TOKENS.ensure()
    for role in BUILT_IN:
        ensure_role(role)
    ensure_catalog()
    domain = ensure_domain("default", "Default")
    project = ensure_project(domain, "bench")
    user = ensure_user(domain, "bench", default_project=project)
    assign_role(user, project, "member")
    return user, project


def fill(user: User, project: Project, begin: int, end: int) -> None:
    """Insert servers with all data that lists show."""
    host, _ = Host.objects.get_or_create(name="bench")
    network, _ = Network.objects.get_or_create(project_id=project.id, name="net", bridge="br-bench")
    subnet, _ = Subnet.objects.get_or_create(
        project_id=project.id, network=network, cidr="10.0.0.0/8", ip_version=4, defaults={"name": "net"}
    )
    group, _ = SecurityGroup.objects.get_or_create(project_id=project.id, name="default")
    flavor: dict[str, Any] = {"flavorid": "1", "name": "m1", "vcpus": 1, "memory_mb": 512, "root_gb": 1}
    flavor |= {"ephemeral_gb": 0, "swap_mb": 0, "extra_specs": {"hw:cpu_policy": "shared"}, "disk_gb": 1}
    now = timezone.now()
    servers = [
        Instance(
            project_id=project.id,
            user_id=user.id,
            name=f"server-{number}",
            hostname=f"server-{number}",
            vm_state="error" if number % FAULTY == 0 else "active",
            task_state=None,
            power_state=1,
            host=host,
            image_id=project.id,
            flavor=flavor,
            public_key="ssh-ed25519 " + "A" * 68,
            user_data="I2Nsb3VkLWNvbmZpZw==" * 50,
            metadata={"role": "web", "stage": "production"},
            tags=["red", "blue"],
            reservation_id=f"r-{number:08}",
            request_id="req-bench",
            created_at=now + timedelta(milliseconds=number),
            updated_at=now,
            launched_at=now,
        )
        for number in range(begin, end)
    ]
    Instance.objects.bulk_create(servers, batch_size=500)
    faults = [
        InstanceFault(instance=server, message="No valid host.") for server in servers if server.vm_state == "error"
    ]
    InstanceFault.objects.bulk_create(faults)
    ports = [
        Port(
            project_id=project.id,
            network=network,
            device_id=server.id,
            device_index=0,
            mac_address=f"fa:16:3e:{at:08x}"[:17],
        )
        for at, server in enumerate(servers, begin)
    ]
    Port.objects.bulk_create(ports, batch_size=500)
    addresses = [
        FixedIP(port=port, subnet=subnet, address=f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}", number=at)
        for at, port in enumerate(ports, begin)
    ]
    FixedIP.objects.bulk_create(addresses, batch_size=500)
    through = Port.security_groups.through
    through.objects.bulk_create([through(port_id=port.id, securitygroup_id=group.id) for port in ports], batch_size=500)


def _timed(query: str, token: str, expected: int) -> list[float]:
    client = Client(headers={"X-Auth-Token": token, "OpenStack-API-Version": "compute 2.96"})
    seconds = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        answer = client.get(f"{DETAIL}?{query}", SERVER_NAME="127.0.0.1")
        seconds.append(time.perf_counter() - began)
        found = len(answer.json()["servers"])
        if found != expected:
            raise SystemExit(f"{query}: {found} servers instead of {expected}")
    return seconds[1:]


def _unchanged(query: str, token: str) -> list[float]:
    """Measure the answers to clients that already have the page; return their processor time as a fraction of the
    processor time of the page itself.
    """
    client = Client(headers={"X-Auth-Token": token, "OpenStack-API-Version": "compute 2.96"})
    ratios = []
    for _ in range(REPEATS + 1):
        began = time.thread_time()
        whole = client.get(f"{DETAIL}?{query}", SERVER_NAME="127.0.0.1")
        middle = time.thread_time()
        same = client.get(f"{DETAIL}?{query}", SERVER_NAME="127.0.0.1", HTTP_IF_NONE_MATCH=whole.headers["ETag"])
        ended = time.thread_time()
        if same.status_code != 304:
            raise SystemExit(f"{query}: {same.status_code} for a page that has not changed")
        ratios.append((ended - middle) / (middle - began))
    return ratios[1:]


def main() -> None:
    """Print the seconds of each list as JSON."""
    user, project = stand()
    token = issue_token(user, project, ("password",)).value
    fill(user, project, 0, MANY)
    found = {"detail": _timed("limit=1000", token, MANY), "few": _timed("limit=100", token, 100)}
    found |= {"same": _unchanged("limit=1000", token), "same_few": _unchanged("limit=100", token)}
    fill(user, project, MANY, MOST)
    print(json.dumps(found | {"many": _timed("limit=100", token, 100)}))
