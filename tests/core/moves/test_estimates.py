"""Estimates of moves: fixed values at first, then the last moves of the cloud."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.common.durations import about
from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance, InstanceAction, Migration
from provisioning.compute.moves.estimates import COLD, EVACUATE, GIB, LIVE, MoveKind, PastMove, estimates_of, fitted
from tests.support.clouds import Cloud
from tests.support.tables import each_row


def of(memory_mb: int, disk_gb: int, image: str | None = "image") -> Any:
    return Instance(
        flavor={"memory_mb": memory_mb, "disk_gb": disk_gb}, image_id=None if image is None else Instance().id
    )


def past(gib: float, seconds: float, *, most: float | None = None) -> PastMove:
    return PastMove(gib if most is None else most, gib, seconds)


def test_without_moves_the_fixed_values_hold() -> None:
    assert fitted(COLD, [])(of(1024, 4)) == pytest.approx(20 + 4 * 5)
    assert fitted(LIVE, [])(of(2048, 0)) == pytest.approx(5 + 2 * 4)
    assert fitted(EVACUATE, [])(of(2048, 100)) == pytest.approx(30)


def test_a_server_without_local_disk_has_none_to_copy() -> None:
    assert fitted(COLD, [])(of(1024, 400, None)) == pytest.approx(20)


@pytest.mark.parametrize("kind", [LIVE, COLD, EVACUATE])
def test_the_last_moves_count(kind: MoveKind) -> None:
    """Servers of one size: the next one of them takes as long, within the 30 % that a plan promises."""
    usual = of(1024, 1)
    most = kind.gib(usual.flavor, local_disk=True)
    for seconds in (3.0, 12.0, 200.0):
        result = fitted(kind, [past(most, seconds * each) for each in (0.9, 1.0, 1.0, 1.1, 1.0)] * 4)
        assert result(usual) == pytest.approx(seconds, rel=0.3)


def test_the_size_of_the_disk_counts() -> None:
    moves = [past(gib, 8 + 2 * gib) for gib in (1, 2, 10, 40)] * 5
    for gib in (1, 10, 40):
        assert fitted(COLD, moves)(of(512, gib)) == pytest.approx(8 + 2 * gib, rel=0.3)


def test_one_move_that_hung_changes_little() -> None:
    moves = [past(1, 10.0)] * 19
    assert fitted(COLD, [*moves, past(1, 3000.0)])(of(512, 1)) == pytest.approx(
        fitted(COLD, moves)(of(512, 1)), rel=0.2
    )


def test_only_the_used_part_of_disks_travels() -> None:
    result = fitted(COLD, [past(1, 25.0, most=10)] * 20)
    assert result.share == pytest.approx(0.1)
    assert result(of(512, 10)) == pytest.approx(25.0, rel=0.1)


def test_no_estimate_is_below_a_second() -> None:
    assert fitted(LIVE, [past(1, 0.0)] * 20)(of(1024, 0)) >= 1.0


@each_row(
    "seconds, text",
    [
        (0.0, "5 s"),
        (28.1, "30 s"),
        (61.0, "60 s"),
        (100.0, "2 min"),
        (3000.0, "50 min"),
        (9000.0, "2 h"),
    ],
)  # fmt: skip
def test_estimates_are_rounded(seconds: float, text: str) -> None:
    assert about(seconds) == text


def record(server: Instance, seconds: float, kind: str, action: str, **columns: Any) -> None:
    """The records of a move that took so long."""
    since = timezone.now() - timedelta(seconds=seconds)
    names = {"source_compute": "one", "dest_compute": "two"}
    times = {"created_at": since, "updated_at": timezone.now()}
    Migration.objects.create(
        instance=server, migration_type=kind, old_flavor=server.flavor, new_flavor=server.flavor,
        **(names | times | columns),
    )  # fmt: skip
    number = str(InstanceAction.objects.count())
    InstanceAction.objects.create(
        instance=server, action=action, request_id=number, started_at=since, finished_at=timezone.now()
    )


@pytest.mark.django_db
def test_records_of_moves_are_read(alice: RequestContext, cloud: Cloud) -> None:
    server = cloud.launch(alice)
    cloud.run()
    before = estimates_of(COLD)()(server)
    for wrong in (
        {"status": "error"},
        {"status": "confirmed", "dest_compute": "one"},
        {"status": "confirmed", "migration_type": "live-migration"},
    ):
        record(server, 500.0, **({"kind": "migration", "action": "other"} | _named(wrong)))
    assert estimates_of(COLD)()(server) == before
    for _ in range(25):
        record(server, 100.0, "migration", "migrate", status="confirmed", disk_total_bytes=2 * GIB)
    with CaptureQueriesContext(connection) as queries:
        estimate = estimates_of(COLD)()
    assert len(queries) == 2
    assert estimate(server) == pytest.approx(100.0, rel=0.1)
    assert estimates_of(LIVE)()(server) != pytest.approx(100.0, rel=0.1)


def _named(columns: dict[str, Any]) -> dict[str, Any]:
    return {("kind" if name == "migration_type" else name): value for name, value in columns.items()}
