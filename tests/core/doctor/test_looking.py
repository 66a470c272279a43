"""What the doctor does not find, how its runs go, and its command."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import Stop
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.models import Instance
from provisioning.doctor.checks import CHECKS
from provisioning.doctor.examinations import runs
from provisioning.doctor.examinations.examination import examine, findings, treat
from provisioning.doctor.examinations.runs import MOST_RUNS
from provisioning.doctor.models import DoctorRun
from provisioning.hosts.models import Host
from provisioning.jobs.models import WorkerBeat
from provisioning.network.models import Port
from provisioning.quotas.models import QuotaUsage
from tests.core.doctor.findings import OLD, broken, command, look
from tests.support.clouds import Cloud, context

pytestmark = pytest.mark.slow


def test_the_sql_of_most_looks_is_made_once(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.running(alice)
    assert list(findings()) == []
    made: list[str] = []
    make = SQLCompiler.as_sql

    def count(compiler: SQLCompiler, *args: Any, **options: Any) -> Any:
        made.append(str(compiler.query.model))
        return make(compiler, *args, **options)

    monkeypatch.setattr(SQLCompiler, "as_sql", count)
    with CaptureQueriesContext(connection) as queries:
        assert list(findings()) == []
    assert len(made) < len(queries)


def test_a_busy_cloud_is_well(cloud: Cloud, alice: RequestContext) -> None:
    assert look() == []
    for _ in range(3):
        cloud.running(alice)
    first, second, third = (cloud.fresh(row) for row in Instance.objects.order_by("created_at"))
    cloud.launch(alice)
    assert look() == []
    Stop.begin(context("alice"), first.id)
    delete(context("alice"), second.id)
    create_image(context("alice"), third.id, "copy")
    assert look() == []
    Host.objects.filter(name="one").update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert {result.check for result in look()} == {"hosts"}
    cloud.run()
    Host.objects.update(last_seen_at=timezone.now())
    assert look() == []


def test_what_moves_between_two_looks_is_not_found(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Instance.objects.filter(id=row.id).update(task_deadline=timezone.now())

    def meanwhile(_: float) -> None:
        Instance.objects.filter(id=row.id).update(task_deadline=None)

    assert examine(["tasks"], wait=meanwhile) == []


def test_a_repair_looks_a_last_time(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Port.objects.filter(device_id=row.id).update(device_id=uuid.uuid4())
    result = [each for each in look("ports") if each.repair]
    Port.objects.update(device_id=row.id)
    assert [each.repaired for each in treat(result, repair=True)] == [None]
    assert Port.objects.filter(device_id=row.id).exists()


def test_a_check_that_breaks_does_not_keep_the_others_from_being_made(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks() -> Any:
        raise ZeroDivisionError

    monkeypatch.setitem(CHECKS, "quota", breaks)
    WorkerBeat.objects.all().delete()
    assert [each.check for each in look()] == ["quota", "workers"]


def test_the_command_takes_no_negative_pause(db: None) -> None:
    with pytest.raises(CommandError, match="--pause"):
        call_command("doctor", "--pause", "-1")


def test_the_command_says_all_is_well(cloud: Cloud) -> None:
    text, status = command()
    assert (text.strip(), status) == (f"{len(CHECKS)} checks: all is well.", 0)


def test_the_command_tells_and_mends(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    QuotaUsage.objects.filter(resource__in=["cores", "ram"]).update(in_use=9)
    text, status = command()
    assert status == 1
    assert "--repair would: Count again." in text
    assert "Found: 2. Repaired: 0. Remaining: 2." in text
    text, status = command("--repair", "--check", "quota")
    assert status == 0
    assert "Found: 2. Repaired: 2. Remaining: 0." in text
    assert command()[1] == 0
    broken(row, deleted_at=timezone.now())
    assert command("--repair")[1] == 1


def test_the_command_writes_json(cloud: Cloud, alice: RequestContext) -> None:
    cloud.running(alice)
    Host.objects.update(vcpus_allocated=5)
    text, status = command("--json", "--repair")
    report = json.loads(text)
    assert status == 0
    assert (report["errors"], report["repaired"], report["left"]) == (2, 2, 0)
    assert set(report["findings"][0]) == {"check", "severity", "subject", "sentence", "repair", "repaired"}


def test_the_command_knows_its_checks(cloud: Cloud) -> None:
    assert command("--list")[0].split() == list(CHECKS)
    with pytest.raises(CommandError, match=r"There is no check 'nothing'\. The checks are tasks, "):
        command("--check", "nothing")


def test_runs_are_kept_but_not_for_ever(cloud: Cloud) -> None:
    old = timezone.now() - OLD
    DoctorRun.objects.bulk_create(
        DoctorRun(started_at=old, finished_at=old, trigger="clock") for _ in range(MOST_RUNS + 5)
    )
    run = runs.run("command", pause=0)
    assert DoctorRun.objects.count() == MOST_RUNS
    assert DoctorRun.objects.order_by("-started_at")[:1].get() == run
