"""The history of one server is bounded, however often a member lets it begin something."""

from __future__ import annotations

import pytest

from provisioning.compute.actions.lock import Unlock, lock
from provisioning.compute.models import (
    InstanceAction,
    InstanceActionEvent,
    InstanceFault,
    Migration,
    SchedulingDecision,
)
from provisioning.compute.records import instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.records.migration_records import open_migration
from tests.support.clouds import Cloud, context

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.mark.slow
def test_a_living_server_keeps_its_newest_actions_and_how_it_was_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_actions, "MOST_OF_SERVER", 4)
    cloud = Cloud.make()
    cloud.add_host("one")
    server, other = (cloud.launch(context("alice")) for _ in range(2))
    cloud.run()
    for _ in range(6):
        lock(context("alice"), server.id)
        Unlock.begin(context("alice"), server.id)
    InstanceAction.objects.update(counted=True)
    lock(context("alice"), server.id)
    kept = list(InstanceAction.objects.filter(instance=server).order_by("id").values_list("action", flat=True))
    assert kept == ["create", "lock", "unlock", "lock", "unlock", "lock"]
    assert not InstanceActionEvent.objects.filter(action=None).exists()
    assert InstanceAction.objects.filter(instance=other).count() == 1


@pytest.mark.slow
def test_the_rest_of_its_history_is_as_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_actions, "MOST_OF_SERVER", 4)
    cloud = Cloud.make()
    cloud.add_host("one")
    server, other = (cloud.launch(context("alice")) for _ in range(2))
    cloud.run()
    for each in (server, other):
        for number in range(8):
            record_fault(each, str(number))
            SchedulingDecision.objects.create(instance=each, attempt=number + 2, filters=[], seconds=0)
            move = open_migration(context("alice"), each, "resize", each.flavor)
            Migration.objects.filter(id=move.id).update(status="confirmed")
    waiting = Migration.objects.filter(instance=server).earliest("id")
    Migration.objects.filter(id=waiting.id).update(status="finished")
    for _ in range(4):
        lock(context("alice"), server.id)
        Unlock.begin(context("alice"), server.id)
        InstanceAction.objects.update(counted=True)
    faults = InstanceFault.objects.filter(instance=server).order_by("id").values_list("message", flat=True)
    assert list(faults) == ["4", "5", "6", "7"]
    assert SchedulingDecision.objects.filter(instance=server).count() == 4
    assert Migration.objects.filter(instance=server).count() == 5
    assert Migration.objects.filter(id=waiting.id).exists(), "it may still be confirmed"
    assert [model.objects.filter(instance=other).count() for model in (InstanceFault, Migration)] == [8, 8]


def test_an_action_in_progress_or_not_in_the_metrics_yet_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_actions, "MOST_OF_SERVER", 0)
    cloud = Cloud.make()
    cloud.add_host("one")
    server = cloud.launch(context("alice"))
    cloud.run()
    lock(context("alice"), server.id)
    Unlock.begin(context("alice"), server.id)
    InstanceAction.objects.filter(action="lock").update(counted=True, finished_at=None)
    lock(context("alice"), server.id)
    assert list(InstanceAction.objects.order_by("id").values_list("action", flat=True)) == [
        "create", "lock", "unlock", "lock",
    ]  # fmt: skip
