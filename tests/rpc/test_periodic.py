"""Work by the clock: one group at a time, one failure stops nothing, and it is known when it last ran."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from provisioning.rpc import groups
from provisioning.rpc.models import Lease, WorkerBeat
from provisioning.rpc.periodic import PeriodicLoop
from provisioning.rpc.registry import PeriodicJob, periodic_jobs
from provisioning.rpc.testing import run_periodic
from tests.rpc.conftest import Group, eventually

pytestmark = pytest.mark.django_db(transaction=True)


def job(name: str, every: float, ran: list[str]) -> PeriodicJob:
    return PeriodicJob(name, every, lambda: ran.append(name))


def test_a_job_runs_at_once_and_then_at_its_interval() -> None:
    ran: list[str] = []
    loop = PeriodicLoop("g", [job("often", 0.05, ran), job("rarely", 3600, ran)])
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        loop.run_due()
        time.sleep(0.005)
    assert ran.count("rarely") == 1
    assert 3 <= ran.count("often") <= 11


def test_two_groups_do_it_once() -> None:
    ran: list[str] = []
    loops = [PeriodicLoop(name, [job("p", 3600, ran)]) for name in ("g1", "g2")]
    for loop in loops:
        loop.run_due()
    assert ran == ["p"]
    lease = Lease.objects.get(name="p")
    assert lease.holder == "g1"
    assert lease.last_run_at is not None


def test_a_holder_at_work_keeps_the_others_away_until_its_lease_ends() -> None:
    ran: list[str] = []
    Lease.objects.create(name="p", holder="g1", expires_at=timezone.now() + timedelta(seconds=60))
    PeriodicLoop("g2", [job("p", 1, ran)]).run_due()
    assert ran == []
    Lease.objects.update(expires_at=timezone.now())
    PeriodicLoop("g2", [job("p", 1, ran)]).run_due()
    assert ran == ["p"]


def test_a_failing_job_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    def fail() -> None:
        message = "out of order"
        raise LookupError(message)

    groups.beat("g", [])
    PeriodicLoop("g", [PeriodicJob("broken", 1, fail), job("sound", 1, ran)]).run_due()
    assert ran == ["sound"]
    assert "out of order" in caplog.text
    assert Lease.objects.get(name="broken").last_run_at is not None
    assert WorkerBeat.objects.get().jobs_failed == 1


def test_the_registered_work_runs() -> None:
    for name in ("events.prune", "rpc.prune"):
        assert name in periodic_jobs
        run_periodic(name)


def test_a_group_does_the_periodic_work(start_group: Callable[..., Group]) -> None:
    group = start_group(workers=1, periodic=True)
    done = Lease.objects.filter(name="tests.worker.tick").exclude(last_run_at=None)
    eventually(done.exists, "the periodic job ran")
    first = done.get().last_run_at
    eventually(lambda: done.get().last_run_at > first, "and again")
    assert group.stop() == 0
    assert done.get().expires_at <= timezone.now()
