"""Work by the clock: one group at a time, one failure stops nothing, and it is known when it last ran."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from provisioning.jobs.models import Lease, WorkerBeat
from provisioning.jobs.periodic.run import PeriodicLoop
from provisioning.jobs.queue import worker_groups
from provisioning.jobs.registry import PeriodicJob, periodic_jobs
from provisioning.jobs.selectors import periodic_work
from provisioning.jobs.workers import watchdog
from provisioning.jobs.workers.watchdog import StuckError, Watchdog
from tests.jobs.conftest import PATIENCE, Group, eventually
from tests.support.jobs import run_periodic

pytestmark = pytest.mark.django_db(transaction=True)


def job(name: str, every: float, ran: list[str]) -> PeriodicJob:
    return PeriodicJob(name, every, lambda: ran.append(name))


def test_a_job_runs_at_once_and_then_at_its_interval() -> None:
    ran: list[str] = []
    loop = PeriodicLoop("g", [job("often", 0.05, ran), job("rarely", 3600, ran)])
    began = time.monotonic()
    while ran.count("often") < 6 and time.monotonic() < began + PATIENCE:
        loop.run_due()
        time.sleep(0.005)
    assert ran.count("rarely") == 1
    assert 6 <= ran.count("often") <= 1 + (time.monotonic() - began) / 0.05


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

    worker_groups.beat("g", [])
    PeriodicLoop("g", [PeriodicJob("broken", 1, fail), job("sound", 1, ran)]).run_due()
    assert ran == ["sound"]
    assert "out of order" in caplog.text
    assert Lease.objects.get(name="broken").last_run_at is not None
    assert WorkerBeat.objects.get().jobs_failed == 1


def test_the_registered_work_runs() -> None:
    for name in ("events.prune", "hosts.prune"):
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


@pytest.mark.slow
@pytest.mark.both_databases("locks")
def test_every_job_of_the_cloud_runs_once_whichever_of_many_groups_is_first() -> None:
    ran: Counter[str] = Counter()
    jobs = [
        PeriodicJob(name, job.every + 3600, lambda name=name: ran.update([name])) for name, job in periodic_jobs.items()
    ]  # type: ignore[misc]
    loops = [PeriodicLoop(f"g{number}", jobs) for number in range(3)]
    start = threading.Barrier(len(loops))

    def work(loop: PeriodicLoop) -> None:
        start.wait(300)
        loop.run_due()
        loop.run_due()
        connection.close()

    threads = [threading.Thread(target=work, args=[loop]) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert ran == dict.fromkeys(periodic_jobs, 1)
    assert {"compute.reaper", "identity.flush", "compute.usage_audit", "quotas.check"} <= set(ran)


def test_a_run_says_when_it_was_and_how_long_it_took() -> None:
    before = timezone.now()
    PeriodicLoop("g", [PeriodicJob("slow", 1, lambda: time.sleep(0.02))]).run_due()
    lease = Lease.objects.get(name="slow")
    assert lease.last_run_at is not None
    assert lease.last_finished_at is not None
    assert lease.last_seconds is not None
    assert before <= lease.last_run_at < lease.last_finished_at <= timezone.now()
    assert 0.02 <= lease.last_seconds < 30
    assert (lease.last_error, lease.holder) == ("", "g")
    assert lease.expires_at <= timezone.now()


def test_a_failure_is_kept_until_a_run_goes_well() -> None:
    worker_groups.beat("g", [])
    broken = [True]

    def work() -> None:
        if broken:
            raise LookupError("out of\norder" + "x" * 2000)

    PeriodicLoop("g", [PeriodicJob("p", 1, work)]).run_due()
    message = Lease.objects.get().last_error
    assert message.startswith("LookupError: out of orderx")
    assert len(message) == 500
    broken.clear()
    Lease.objects.update(last_run_at=timezone.now() - timedelta(seconds=2))
    PeriodicLoop("g", [PeriodicJob("p", 1, work)]).run_due()
    assert Lease.objects.get().last_error == ""


def test_a_job_that_hangs_does_not_hold_up_the_others() -> None:
    release, stop, ran = threading.Event(), threading.Event(), list[str]()
    hang = PeriodicJob("hang", 0.05, lambda: release.wait(30))
    loop = PeriodicLoop("g", [hang, job("sound", 0.05, ran)])
    thread = threading.Thread(target=loop.run, args=[stop])
    thread.start()
    try:
        eventually(lambda: len(ran) >= 3, "the sound job ran again and again")
        running = loop.running
        assert running is not None
        assert running[0] == "hang"
    finally:
        release.set()
        stop.set()
        thread.join(300)
    assert not thread.is_alive()


def test_a_group_that_stops_starts_no_more_jobs_that_are_due() -> None:
    ran: list[str] = []
    jobs = [PeriodicJob("first", 60, lambda: loop.close()), job("second", 60, ran)]
    loop = PeriodicLoop("g", jobs)
    loop.run_due()
    assert ran == []
    assert list(Lease.objects.values_list("name", flat=True)) == ["first"]


def test_no_lease_is_acquired_after_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane has chosen its job when the group is closed."""
    ran: list[str] = []
    loop = PeriodicLoop("g", [job("chosen", 60, ran)])
    chosen = loop._next
    monkeypatch.setattr(loop, "_next", lambda seen: (chosen(seen), loop.close())[0])
    loop.run_due()
    assert (ran, Lease.objects.count()) == ([], 0)


def test_a_group_with_a_job_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "PERIODIC_STUCK_AFTER", 0.0)
    kept = Watchdog("g", [], periodic=True)
    release, stop = threading.Event(), threading.Event()
    kept._loop = PeriodicLoop("g", [PeriodicJob("hang", 60, lambda: release.wait(30))])
    thread = threading.Thread(target=kept._loop.run, args=[stop])
    thread.start()
    try:
        eventually(lambda: kept._loop is not None and kept._loop.running, "it hangs")
        with pytest.raises(StuckError, match="The periodic job hang does not end"):
            kept.look()
    finally:
        release.set()
        stop.set()
        thread.join(300)


def lease(name: str, **columns: object) -> None:
    now = timezone.now()
    values = {"holder": "g", "expires_at": now, "last_run_at": now, "last_finished_at": now, **columns}
    Lease.objects.update_or_create(name=name, defaults=values)


def test_what_is_overdue_is_known() -> None:
    now = timezone.now()
    for name in periodic_jobs:
        lease(name)
    lease("events.prune", last_run_at=now - timedelta(seconds=3 * 60 + 61))
    lease("hosts.prune", last_run_at=now - timedelta(seconds=3 * 60 + 50))
    lease("compute.reaper", last_run_at=now - timedelta(seconds=300), expires_at=now + timedelta(seconds=299))
    Lease.objects.filter(name="identity.flush").delete()
    work = {each.name: each for each in periodic_work(now)}
    assert {name for name, each in work.items() if each.overdue} == {"events.prune", "identity.flush"}
    assert work["compute.reaper"].running_since is not None


def test_the_command_lists_it() -> None:
    for name in periodic_jobs:
        lease(name)
    output = StringIO()
    call_command("periodic", stdout=output)
    assert all(name in output.getvalue() for name in periodic_jobs)
    lease("events.prune", last_error="LookupError: gone")
    output = StringIO()
    with pytest.raises(SystemExit):
        call_command("periodic", "--json", stdout=output)
    result = {each["name"]: each for each in json.loads(output.getvalue())}
    assert result["events.prune"]["last_error"] == "LookupError: gone"
    assert result["events.prune"]["every"] == 60
