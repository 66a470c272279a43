"""The doctor: each check sees what a broken record is, says it in plain words, and mends it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute import services
from provisioning.compute.models import Allocation, Host, Instance, InstanceAction
from provisioning.compute.states import TaskState, VmState
from provisioning.conductor import doctor
from provisioning.conductor.doctor import Finding
from provisioning.network.models import FixedIP, Port
from provisioning.quotas.models import QuotaUsage
from provisioning.rpc.models import HostCommand, Lease, WorkerBeat
from tests.support import invariants
from tests.support.clouds import Cloud, context


@pytest.fixture
def cloud(db: None) -> Cloud:
    """A cloud with two hosts and a worker; what a test breaks and does not mend stays broken."""
    made = Cloud.make()
    made.add_host("one")
    made.add_host("two")
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler,conductor", beat_at=timezone.now())
    return made


def look(*names: str) -> list[Finding]:
    return doctor.examine(names, pause=0)


def only(check: str) -> Finding:
    (found,) = look(check)
    return found


def mended(check: str) -> str:
    """Mend the one thing that a check finds; it finds nothing any more."""
    (treated,) = doctor.treat([only(check)], repair=True)
    assert treated.repaired
    assert look(check) == []
    invariants.check()
    return treated.repaired


def at_rest(cloud: Cloud, caller: RequestContext) -> Instance:
    made = cloud.launch(caller)
    cloud.run()
    return cloud.fresh(made)


# ----- what is well is not found --------------------------------------------------------------------------------------


def test_a_busy_cloud_is_well(cloud: Cloud, alice: RequestContext) -> None:
    assert look() == []
    for _ in range(3):
        at_rest(cloud, alice)
    first, second, third = (cloud.fresh(row) for row in Instance.objects.order_by("created_at"))
    cloud.launch(alice)
    assert look() == []
    services.stop(context("alice"), first.id)
    services.delete(context("alice"), second.id)
    services.snapshot(context("alice"), third.id, "copy") if hasattr(services, "snapshot") else None
    assert look() == []
    Host.objects.filter(name="one").update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert {found.check for found in look()} == {"hosts"}
    cloud.run()
    Host.objects.update(last_seen_at=timezone.now())
    assert look() == []


def test_what_moves_between_two_looks_is_not_found(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = at_rest(cloud, alice)
    Instance.objects.filter(id=row.id).update(task_deadline=timezone.now())

    def meanwhile(_: float) -> None:
        Instance.objects.filter(id=row.id).update(task_deadline=None)

    monkeypatch.setattr("provisioning.conductor.doctor.looks.time.sleep", meanwhile)
    assert look("tasks") == []


def test_a_repair_looks_a_last_time(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Port.objects.filter(device_id=row.id).update(device_id=uuid.uuid4())
    found = [each for each in look("ports") if each.mend]
    Port.objects.update(device_id=row.id)
    assert [each.repaired for each in doctor.treat(found, repair=True)] == [None]
    assert Port.objects.filter(device_id=row.id).exists()
