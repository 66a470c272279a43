"""What ``/metrics`` says of block storage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.hosts import commands
from provisioning.hosts.models import CommandTotal, HostCommand
from provisioning.volumes.models import Backup, StoragePool
from tests.metrics.test_metrics import TOKEN, of, scrape, values
from tests.volumes.conftest import Town, build

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
GIB = 1 << 30


@pytest.fixture
def town(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Town:
    settings.METRICS_TOKEN = TOKEN
    return build(monkeypatch)


@pytest.mark.slow
def test_pools_and_what_is_in_them(town: Town) -> None:
    StoragePool.objects.update(reserved_percentage=10, max_over_subscription_ratio=2, frozen=True)
    town.pool.free_gb = 80
    StoragePool.objects.update(frozen=False)
    first, _ = town.make(3), town.make(4)
    town.attach(first)
    Backup.objects.create(
        project_id=first.project_id, volume_id=first.id, size_gb=3, status="available", stored_bytes=7
    )
    result = values()
    pool = {"pool": "local", "driver": "fake", "zone": "nova", "id": town.pool.id}
    assert of(result, "novella_pool_bytes", **pool) == 100 * GIB
    assert of(result, "novella_pool_allocatable_bytes", **pool) == 180 * GIB
    assert of(result, "novella_pool_allocated_bytes", **pool) == 7 * GIB
    assert of(result, "novella_pool_up", **pool) == 1
    assert of(result, "novella_pool_frozen", **pool) == 0
    assert of(result, "novella_volumes", status="in-use") == 1
    assert of(result, "novella_volume_bytes", status="available") == 4 * GIB
    assert of(result, "novella_volume_attachments", status="attached") == 1
    assert of(result, "novella_backup_bytes", status="available") == 7


@pytest.mark.both_databases("locks")
def test_commands_are_counted_once_with_their_rows_or_without(town: Town) -> None:
    town.make(), town.make()
    now = timezone.now()
    HostCommand.objects.filter(kind="create_volume_request").update(
        created_at=now - timedelta(seconds=3), begun_at=now, finished_at=now
    )

    def counted() -> list[float]:
        result = values()
        name = "novella_command_seconds"
        return [
            of(result, f"{name}_count", command="create_volume"),
            of(result, f"{name}_sum", command="create_volume"),
            of(result, f"{name}_bucket", command="create_volume", le="2.5"),
            of(result, f"{name}_bucket", command="create_volume", le="5"),
        ]

    assert counted() == [2, 6, 0, 2]
    HostCommand.objects.update(
        finished_at=now - commands.RETENTION * 2, created_at=now - commands.RETENTION * 2 - timedelta(0, 3)
    )
    commands.prune()
    assert not HostCommand.objects.exists()
    assert counted() == [2, 6, 0, 2]
    commands.prune()
    assert CommandTotal.objects.get(kind="create_volume_request").count == 2


@pytest.mark.slow
def test_more_volumes_cost_no_more_queries(town: Town) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            scrape()
        return len(queries)

    town.make()
    once = cost()
    for _ in range(3):
        town.make()
    town.cloud.add_host("other").serve()
    assert cost() == once
