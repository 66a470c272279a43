"""Measures pages of the dashboard inside Django: ``bin/bench dashboard`` runs `main` on an empty database."""

from __future__ import annotations

import gzip
import json
import random
import statistics
import time
import uuid
from collections.abc import Sequence

from django.conf import settings
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from compute_agent.contract.samples import GUEST_SERIES
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.identity.services.tokens import issue_token
from provisioning.measures import condensing
from provisioning.measures.codes import encode, pack
from provisioning.measures.models import Block
from provisioning.measures.resolutions import FINE, HOUR
from tools.bench.in_django import lists

REPEATS = 15
DRAWN = 200
"""Newest servers, which have measures of the last hour."""
PAGES = (
    ("overview", "/", 20, 0),
    ("list of 100 of 10,000 instances", "/instances/?size=100", 60, 12),
    ("list of 200 of 10,000 instances", "/instances/?size=200", 100, 60),
)
"""Name, address, and the goals: milliseconds of one core, and kB as sent (0: none)."""


def main() -> None:
    """Print the costs of the pages as lines in JSON."""
    user, project = lists.stand()
    lists.fill(user, project, 0, lists.MOST)
    Host.objects.update(last_seen_at=timezone.now(), connected=True)
    _draw(list(Instance.objects.order_by("-created_at").values_list("id", flat=True)[:DRAWN]))
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    with override_settings(STORAGES=settings.STORAGES | {"staticfiles": plain}):
        client = Client(SERVER_NAME="127.0.0.1", headers={"Accept-Encoding": "gzip"})
        session = client.session
        session["token"] = issue_token(user, project, ("password",)).value
        session.save()
        client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key or ""
        lines = [_measured(client, *page) for page in PAGES]
    print(json.dumps({"lines": lines}))


def _draw(servers: Sequence[uuid.UUID]) -> None:
    """Write measures of the last hour; complete blocks are condensed, as by a worker."""
    now = time.time()
    newest = int(now) // FINE.block
    Block.objects.bulk_create(
        Block(
            subject_id=server,
            resolution=FINE.seconds,
            start=start,
            width=len(GUEST_SERIES),
            data=pack([encode(random.random()) for _ in range(FINE.points * len(GUEST_SERIES))]),  # noqa: S311
        )
        for server in servers
        for start in range(newest - HOUR // FINE.block, newest + 1)
    )
    condensing.condense_complete(now)


def _measured(client: Client, what: str, path: str, most: int, most_kb: int) -> tuple[str, str, str]:
    """Return name, figures and goals of a page."""
    seconds = []
    for _ in range(REPEATS + 1):
        began = time.thread_time()
        answer = client.get(path)
        seconds.append(time.thread_time() - began)
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.status_code}")
    with CaptureQueriesContext(connection) as sent:
        client.get(path)
    least, middle = min(seconds[1:]) * 1000, statistics.median(seconds[1:]) * 1000
    size = f"{len(answer.content) / 1000:.1f} kB ({len(gzip.decompress(answer.content)) / 1000:.0f} kB uncompressed)"
    figures = f"{least:.0f} ms of a core (median {middle:.0f}), {len(sent)} queries, {size}"
    return what, figures, f"{most} ms" + (f", {most_kb} kB" if most_kb else "")
