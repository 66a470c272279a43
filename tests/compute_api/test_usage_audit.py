"""Audits of usage: one row for each host and period, and what the API says of them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from provisioning.compute.jobs import audit_usage
from provisioning.compute.models import Instance, UsageAudit
from provisioning.compute.selectors.usage_audit import completed_before
from provisioning.hosts.models import Host
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.jobs import run_periodic
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
LOG = f"{V21}/os-instance_usage_audit_log"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@each_row(
    ("unit", "beginning", "ending"),
    [
        ("hour", "2026-03-10 10:00", "2026-03-10 11:00"),
        ("hour@30", "2026-03-10 10:30", "2026-03-10 11:30"),
        ("hour@45", "2026-03-10 09:45", "2026-03-10 10:45"),
        ("day", "2026-03-09", "2026-03-10"),
        ("day@18", "2026-03-08 18:00", "2026-03-09 18:00"),
        ("month", "2026-02-01", "2026-03-01"),
        ("month@15", "2026-01-15", "2026-02-15"),
        ("year", "2025-01-01", "2026-01-01"),
        ("year@6", "2024-06-01", "2025-06-01"),
    ],
)
def test_the_period_that_ended_last(unit: str, beginning: str, ending: str) -> None:
    result = completed_before(unit, utc("2026-03-10 11:40"))
    assert (result.beginning, result.ending) == (utc(beginning), utc(ending))


def test_a_period_that_ends_now_has_not_ended() -> None:
    assert completed_before("month", utc("2026-01-01")).ending == utc("2025-12-01")
    assert completed_before("hour", utc("2026-01-01")).ending == utc("2025-12-31 23:00")


@pytest.mark.slow
def test_each_host_is_audited_once_for_each_period(api: Api, cloud: Cloud, settings: Settings) -> None:
    settings.INSTANCE_USAGE_AUDIT_PERIOD = "hour"
    now = utc("2026-03-10 12:20")
    Instance.objects.filter(id=launch(api, cloud)).update(launched_at=now - timedelta(hours=5))
    Instance.objects.filter(id=launch(api, cloud)).update(launched_at=now)
    assert audit_usage(now) == 1
    assert audit_usage(now + timedelta(minutes=30)) == 0
    Host.objects.create(name="late")
    assert audit_usage(now + timedelta(minutes=30)) == 1
    assert audit_usage(now + timedelta(hours=1)) == 2
    rows = UsageAudit.objects.order_by("period_ending", "host").values_list("host", "task_items", "state")
    assert list(rows) == [("h1", 1, "DONE"), ("late", 0, "DONE"), ("h1", 2, "DONE"), ("late", 0, "DONE")]


@pytest.mark.both_databases("constraints")
def test_the_job_runs_by_the_clock(cloud: Cloud) -> None:
    run_periodic("compute.usage_audit")
    run_periodic("compute.usage_audit")
    assert UsageAudit.objects.count() == 1


def test_operators_read_the_log(api: Api, cloud: Cloud, people: People) -> None:
    operator = Api(people.operator)
    run_periodic("compute.usage_audit")
    Host.objects.create(name="silent")
    shown = operator.get(LOG).json()["instance_usage_audit_logs"]
    period = completed_before("month", datetime.now(UTC))
    message = shown["log"]["h1"].pop("message")
    assert "0 servers" in message
    assert shown == {
        "period_beginning": period.beginning.strftime("%Y-%m-%d %H:%M:%S"),
        "period_ending": period.ending.strftime("%Y-%m-%d %H:%M:%S"),
        "num_hosts": 2,
        "num_hosts_done": 1,
        "num_hosts_running": 0,
        "num_hosts_not_run": 1,
        "hosts_not_run": ["silent"],
        "total_instances": 0,
        "total_errors": 0,
        "overall_status": "1 of 2 hosts done. 0 errors.",
        "log": {"h1": {"state": "DONE", "instances": 0, "errors": 0}},
    }
    Host.objects.filter(name="silent").delete()
    assert operator.get(LOG).json()["instance_usage_audit_logs"]["overall_status"] == "ALL hosts done. 0 errors."
    assert api.get(LOG).status_code == 403
    assert api.get(f"{LOG}/2026-01-01 00:00:00").status_code == 403


@pytest.mark.parametrize("before", ["2020-06-15 10:00:00", "2020-06-15 10:00:00.123456"])
def test_an_earlier_period_is_named_by_a_time(cloud: Cloud, people: People, before: str) -> None:
    shown = Api(people.operator).get(f"{LOG}/{before}").json()["instance_usage_audit_log"]
    assert (shown["period_beginning"], shown["period_ending"]) == ("2020-05-01 00:00:00", "2020-06-01 00:00:00")
    assert (shown["num_hosts_not_run"], shown["hosts_not_run"], shown["log"]) == (1, ["h1"], {})


@each_row(
    "before", ["yesterday", "2020-06-15", "2020-06-31 00:00:00", "0001-01-01 00:00:00", "2020-06-15 10:00:00.x", "5"]
)
def test_other_times_are_400(people: People, before: str) -> None:
    answer: Any = Api(people.operator).get(f"{LOG}/{before}")
    assert answer.status_code == 400
    assert "Invalid timestamp" in answer.json()["badRequest"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("period", ["week", "day@24", "month@29"])
def test_a_wrong_period_stops_the_start(period: str, tmp_path: Path) -> None:
    environment = os.environ | {"NOVELLA_INSTANCE_USAGE_AUDIT_PERIOD": period, "NOVELLA_DATA": str(tmp_path)}
    command = [sys.executable, "-c", "import portal.settings"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert f"NOVELLA_INSTANCE_USAGE_AUDIT_PERIOD is '{period}'; it must be hour, day, month or year" in ended.stderr
