"""Measures the costs of the measures of servers, inside Django: ``bin/bench measures`` runs `main` on an empty
database, SQLite or the database of NOVELLA_DATABASE_URL. It passes the frames of an hour to the services of the web
processes and of the worker, with a simulated clock, and prints their processor time as a share of that hour. Then it
fills the tables as after a month and prints their size.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Mapping, Sequence

from django.utils import timezone

from compute_agent.contract.messages import decode_to_portal, encode
from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES, GuestSample, Samples
from provisioning.common.database.sizes import database_size
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.measures import collect, condensing, inbound
from provisioning.measures.models import Block
from provisioning.measures.resolutions import FINE, RESOLUTIONS

HOUR = 3600
ON_EACH = 50
"""Servers on each host."""
SAMPLED = 20
"""Servers whose blocks of a month are written in order to measure the size of all."""


def main(servers: int) -> None:
    """Print the costs of a number of servers as lines in JSON."""
    hosts = [
        Host(name=f"host-{number}", vcpus_total=64, memory_mb_total=262_144) for number in range(servers // ON_EACH)
    ]
    Host.objects.bulk_create(hosts)
    ids = {host.id: [uuid.uuid4() for _ in range(ON_EACH)] for host in hosts}
    _create_servers(ids)
    web, worker = _an_hour(ids)
    before = database_size()
    _fill()
    grown = (database_size() - before) / SAMPLED
    lines = [
        (f"frames of {len(hosts)} hosts, of a core", f"{100 * web / HOUR:.2f} %"),
        (f"collecting and condensing {servers} servers, of a core", f"{100 * worker / HOUR:.2f} %"),
        (f"a month of {servers} servers", f"{servers * grown / 1e6:.0f} MB, {grown / 1e3:.0f} kB each"),
    ]
    print(json.dumps({"lines": lines}))


def _an_hour(ids: Mapping[uuid.UUID, Sequence[uuid.UUID]]) -> tuple[float, float]:
    """Return the processor seconds of web and worker."""
    inboxes = {host_id: inbound.Inbox() for host_id in ids}
    web = worker = 0.0
    began = float(int(time.time()) // HOUR * HOUR)
    for second in range(0, HOUR, FINE.seconds):
        frames = {host_id: _frame(here) for host_id, here in ids.items()}
        now, before = began + second + 3, time.process_time()
        for host_id, frame in frames.items():
            samples, slot = decode_to_portal(frame), inboxes[host_id].due(now)
            if slot is not None and isinstance(samples, Samples):
                inbound.receive(host_id, slot, samples, inboxes[host_id], now)
        web += time.process_time() - before
        if second % 60 == 50:
            before = time.process_time()
            collect.collect(now + 30)
            condensing.condense_complete(now + 30)
            condensing.delete_old(now + 30)
            worker += time.process_time() - before
    return web, worker


def _create_servers(ids: Mapping[uuid.UUID, Sequence[uuid.UUID]]) -> None:
    projects, now = [uuid.uuid4() for _ in range(20)], timezone.now()
    Instance.objects.bulk_create(
        Instance(
            id=server,
            project_id=random.choice(projects),  # noqa: S311
            user_id=uuid.uuid4(),
            name="bench",
            hostname="bench",
            host_id=host_id,
            flavor={"vcpus": 2},
            created_at=now,
            updated_at=now,
        )
        for host_id, servers in ids.items()
        for server in servers
    )


def _frame(servers: Sequence[uuid.UUID]) -> bytes:
    guests = [GuestSample(instance_id=str(server), values=_values(len(GUEST_SERIES))) for server in servers]
    return encode(Samples(host=_values(len(HOST_SERIES)), guests=guests))


def _values(many: int) -> list[float | None]:
    return [round(random.random() * 60, 3) for _ in range(many)]  # noqa: S311


def _fill() -> None:
    width = len(GUEST_SERIES)
    for resolution in RESOLUTIONS:
        size = 2 * width * (1 if resolution is FINE else 2) * resolution.points
        for start in range(resolution.kept // resolution.block + 2):
            Block.objects.bulk_create(
                Block(
                    subject_id=uuid.uuid5(uuid.NAMESPACE_DNS, f"server {server}"),
                    resolution=resolution.seconds,
                    start=start,
                    width=width,
                    condensed=True,
                    data=random.randbytes(size),  # noqa: S311
                )
                for server in range(SAMPLED)
            )
