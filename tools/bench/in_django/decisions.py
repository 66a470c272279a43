"""Measures decisions of the scheduler inside Django; `tools.bench.in_django.scheduler` runs it on an empty database."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from provisioning.compute.launch.builds import waiting_build
from provisioning.compute.launch.claim import find_place
from provisioning.compute.models import Instance, InstanceAction, SchedulingDecision
from provisioning.hosts.models import CachedImage, Host

SERVERS_ON_EACH = 10
DECISIONS = 21
"""Number of decisions for each number of hosts; the first is not counted."""
FLAVOR: dict[str, Any] = {"flavorid": "1", "name": "m1", "vcpus": 2, "memory_mb": 4096, "root_gb": 20}
FLAVOR |= {"ephemeral_gb": 0, "swap_mb": 0, "extra_specs": {}, "disk_gb": 20}
IMAGES = [uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in ("asked for", "another")]
PROCESSOR = {"arch": "x86_64", "model": "Cascadelake-Server", "vendor": "Intel", "sockets": "2", "cores": "16"}
PROCESSOR |= {"threads": "2", "features": ",".join(f"feature{number:03}" for number in range(120))}
PROJECT = uuid.uuid5(uuid.NAMESPACE_DNS, "bench")


def fill(begin: int, end: int) -> None:
    """Add hosts, their servers and allocations, their cached images, and some servers that are being built."""
    later = timezone.now() + timedelta(hours=1)  # they stay alive until the end
    hosts = [
        Host(
            name=f"host-{number:05}",
            last_seen_at=later,
            connected=True,
            hypervisor_type="QEMU",
            hypervisor_version=8_002_000,
            architecture="x86_64",
            cpu_info=PROCESSOR,
            cached_images=[str(image) for image in _cached(number)],
            vcpus_total=64,
            memory_mb_total=262_144,
            disk_gb_total=2_000,
            vcpus_allocated=FLAVOR["vcpus"] * SERVERS_ON_EACH,
            memory_mb_allocated=FLAVOR["memory_mb"] * SERVERS_ON_EACH,
            disk_gb_allocated=FLAVOR["disk_gb"] * SERVERS_ON_EACH,
            instances_allocated=SERVERS_ON_EACH,
        )
        for number in range(begin, end)
    ]
    Host.objects.bulk_create(hosts, batch_size=500)
    cached = [
        CachedImage(host=host, image_id=image) for number, host in enumerate(hosts, begin) for image in _cached(number)
    ]
    CachedImage.objects.bulk_create(cached, batch_size=2000)
    names = f"host-{begin:05}", f"host-{end:05}"
    settled, making = (Instance.objects.create(**_server(task)) for task in (None, "spawning"))
    with transaction.atomic(), connection.cursor() as cursor:
        _copy(cursor, settled, SERVERS_ON_EACH - 1, names, "")
        _copy(cursor, settled, 1, names, "AND h.name NOT LIKE '%%7'")
        _copy(cursor, making, 1, names, "AND h.name LIKE '%%7'")
        cursor.execute(
            "INSERT INTO compute_allocation (instance_id, host_id, attempt, vcpus, memory_mb, disk_gb, created_at)"
            " SELECT i.id, i.host_id, 1, 2, 4096, 20, i.created_at"
            " FROM compute_instance i JOIN hosts_host h ON h.id = i.host_id WHERE h.name >= %s AND h.name < %s",
            names,
        )


def _copy(cursor: Any, server: Instance, times: int, names: tuple[str, str], which: str) -> None:
    """Insert ``times`` copies of a server on each host from the first of ``names`` to before the second. ``which`` is
    an additional SQL condition.
    """
    new_id = "gen_random_uuid()" if connection.vendor == "postgresql" else "lower(hex(randomblob(16)))"
    other = {"id": new_id, "host_id": "h.id"}
    columns = [str(field.column) for field in Instance._meta.concrete_fields]
    values = ", ".join(other.get(name, f'i."{name}"') for name in columns)
    numbers = " UNION ALL ".join(["SELECT 1"] * times)
    cursor.execute(
        f"INSERT INTO compute_instance ({', '.join(columns)})"  # noqa: S608 - names of columns
        f" SELECT {values} FROM compute_instance i, hosts_host h, ({numbers}) AS n"
        f" WHERE i.id = %s AND h.name >= %s AND h.name < %s {which}",
        [server.id if connection.vendor == "postgresql" else server.id.hex, *names],
    )


def _cached(number: int) -> list[uuid.UUID]:
    return IMAGES if number % 10 == 0 else IMAGES[1:]


def _server(task: str | None) -> dict[str, Any]:
    """Return the columns of a server without a host: being built if it has a task, otherwise active."""
    now = timezone.now()
    return {
        "project_id": PROJECT,
        "user_id": PROJECT,
        "name": "server",
        "hostname": "server",
        "vm_state": "building" if task else "active",
        "task_state": task,
        "task_deadline": now + timedelta(hours=1) if task else None,
        "attempt": 1,
        "image_id": IMAGES[0],
        "flavor": FLAVOR,
        "reservation_id": "r-bench",
        "request_id": "req-bench",
        "created_at": now,
        "updated_at": now,
    }


def ask(count: int) -> list[str]:
    """Insert servers that wait for a host; return their ids."""
    servers = Instance.objects.bulk_create([Instance(**_server("scheduling")) for _ in range(count)], batch_size=500)
    now = timezone.now()
    rows = [
        InstanceAction(instance=server, action="create", request_id="req-bench", started_at=now) for server in servers
    ]
    InstanceAction.objects.bulk_create(rows, batch_size=500)
    return [str(server.id) for server in servers]


def decide(ids: list[str]) -> Iterator[tuple[float, float]]:
    """Choose and claim a host for each server; yield the elapsed seconds and the processor seconds."""
    for server in ids:
        build = waiting_build(uuid.UUID(server), 1)
        began, busy = time.perf_counter(), time.process_time()
        found = find_place(build) if build is not None else None
        yield time.perf_counter() - began, time.process_time() - busy
        if found is None:
            raise SystemExit(f"no place for {server}")


def curve(*sizes: int, asked: int) -> None:
    """Print as JSON the seconds of decisions and of their parts for each number of hosts.

    Then insert ``asked`` servers that wait for a host, and print their ids.
    """
    there = Host.objects.count()
    points = {}
    for size in sizes:
        began = time.perf_counter()
        fill(there, size)
        filled, there = time.perf_counter() - began, size
        ids = ask(DECISIONS)
        total, busy = (list(column)[1:] for column in zip(*decide(ids), strict=True))
        kept = {str(row.instance_id): row for row in SchedulingDecision.objects.filter(instance_id__in=ids)}
        rows = [kept[server] for server in ids[1:]]
        points[size] = {
            "servers": Instance.objects.count(),
            "filled": filled,
            "total": total,
            "busy": busy,
            "read": [row.read_seconds for row in rows],
            "decide": [row.seconds - row.read_seconds for row in rows],
            "claim": [spent - row.seconds for spent, row in zip(total, rows, strict=True)],
        }
    print(json.dumps({"points": points, "asked": ask(asked)}))


def work(ids: list[str], begin: float) -> None:
    """Decide from the Unix time ``begin`` on; print as JSON the times at which the decisions began and ended. One
    decision before ``begin``, which is not counted, fills caches.
    """
    list(decide(ids[:1]))
    time.sleep(max(begin - time.time(), 0))
    began = time.time()
    done = sum(1 for _ in decide(ids[1:]))
    print(json.dumps({"began": began, "ended": time.time(), "done": done}))
