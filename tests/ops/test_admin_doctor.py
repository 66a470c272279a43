"""The doctor's reports in the operators' pages, and its rounds by the clock."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from provisioning.compute.models import Allocation, Instance
from provisioning.doctor.examinations import examination
from provisioning.doctor.jobs import JOB
from provisioning.doctor.models import DoctorRun
from provisioning.identity import policy
from provisioning.jobs.models import WorkerBeat
from provisioning.jobs.registry import periodic_jobs
from provisioning.jobs.selectors import waiting_jobs
from provisioning.quotas.models import QuotaUsage
from tests.support.cast import People, sign_in_browser
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain, run_periodic

PAGE = "/admin/doctor/doctorrun/"


@pytest.fixture(autouse=True)
def _a_worker_and_no_pause(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "PAUSE", 0)
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler", beat_at=timezone.now() + timedelta(hours=1))


@pytest.fixture
def wrong(db: None) -> None:
    """A counter that is not right."""
    cloud = Cloud.make()
    cloud.add_host("one")
    cloud.launch(context("alice"))
    cloud.run()
    QuotaUsage.objects.filter(resource="cores").update(in_use=9)


@pytest.mark.slow
def test_an_operator_examines_reads_and_repairs(admin: Client, wrong: None) -> None:
    assert "Examine now" in admin.get(PAGE).content.decode()
    page = admin.post(f"{PAGE}examine/", follow=True).content.decode()
    assert "the counters show 9 in use; the reservations add up to 1 in use." in page
    assert "not yet: Count again." in page
    page = admin.post(f"{PAGE}examine/", {"repair": "1"}, follow=True).content.decode()
    assert "Counted again." in page
    assert "by operator with repair" in page
    assert "Nothing was found." in admin.post(f"{PAGE}examine/", follow=True).content.decode()
    listed = admin.get(PAGE).content.decode()
    assert ("1 wrong" in listed, "repaired" in listed, "all is well" in listed) == (True, True, True)


@pytest.mark.slow
def test_a_finding_leads_to_its_instance(admin: Client, wrong: None) -> None:
    row = Instance.objects.get()
    Allocation.objects.all().delete()
    page = admin.post(f"{PAGE}examine/", follow=True).content.decode()
    assert f'instance <a href="/admin/compute/instance/{row.id}/change/">{row.id}</a>' in page
    assert "<td>host one</td>" in page


def test_nobody_else_examines(people: People, admin: Client) -> None:
    member = Client()
    sign_in_browser(member, people.alice)
    for client in (member, Client()):
        assert client.post(f"{PAGE}examine/").status_code == 302
    assert admin.get(f"{PAGE}examine/").status_code == 405
    assert not DoctorRun.objects.exists()


def test_who_may_read_may_not_examine_when_policy_says_so(
    admin: Client, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = DoctorRun.objects.create(started_at=timezone.now(), finished_at=timezone.now(), trigger="clock")
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    settings.POLICY_FILE.write_text('"novella:doctor:run": "!"\n')
    for name in ("LOOK_EVERY", "AT_REST"):
        monkeypatch.setattr(policy, name, 0.0)
    assert admin.get(f"{PAGE}{run.pk}/change/").status_code == 200
    assert "Examine now" not in admin.get(PAGE).content.decode()
    assert admin.post(f"{PAGE}examine/").status_code == 403
    assert DoctorRun.objects.count() == 1


@pytest.mark.slow
def test_the_clock_asks_for_one_round_at_a_time(wrong: None, settings: Any) -> None:
    assert periodic_jobs["doctor.run"].every == settings.DOCTOR_INTERVAL
    run_periodic("doctor.run")
    run_periodic("doctor.run")
    assert len(list(waiting_jobs(JOB))) == 1
    drain()
    run = DoctorRun.objects.get()
    assert (run.trigger, run.errors, run.repaired) == ("clock", 1, 0)


@pytest.mark.slow
def test_the_clock_mends_when_it_is_to(wrong: None, settings: Any) -> None:
    settings.DOCTOR_REPAIR = True
    run_periodic("doctor.run")
    drain()
    assert DoctorRun.objects.get().repaired == 1
