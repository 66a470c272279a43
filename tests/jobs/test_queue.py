"""Who has a message: one group at a time, one worker of it, and nobody once it is dead."""

from __future__ import annotations

import os
import subprocess
from datetime import timedelta

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.jobs.models import JobRun, Lease, WorkerBeat
from provisioning.jobs.queue import rows, worker_groups
from provisioning.jobs.selectors import live_workers
from provisioning.jobs.workers.watchdog import StuckError, Watchdog

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases("locks")]

ELSEWHERE = "another-machine:12345678:1"


def dead_group() -> str:
    """The name of a group of this machine that has ended."""
    process = subprocess.Popen(["/bin/true"])
    name = f"{worker_groups.machine()}:{process.pid}.1"
    process.wait()
    return name


def test_messages_are_taken_in_order_and_once() -> None:
    numbers = [rows.put("t", f"text-{number}") for number in range(3)]
    rows.put("other", "not ours")
    taken = [rows.claim(["t"], "g1"), rows.claim(["t"], "g2"), rows.claim(["t"], "g1")]
    assert [item.id for item in taken if item] == numbers
    assert rows.claim(["t"], "g1") is None


def test_a_message_is_begun_once_by_its_own_group() -> None:
    number = rows.put("t", "text")
    rows.claim(["t"], "g1")
    assert rows.start(number, "g2", "1.1") is None
    assert rows.start(number, "g1", "1.1") == 1
    assert rows.start(number, "g1", "2.2") is None
    rows.finish(number)
    assert rows.start(number, "g1", "1.1") is None
    assert not OrmQ.objects.exists()
    assert not JobRun.objects.exists()


def test_a_message_whose_lock_ran_out_is_the_next_groups_alone() -> None:
    number = rows.put("t", "text")
    rows.claim(["t"], "g1")
    OrmQ.objects.update(lock=timezone.now() - timedelta(seconds=1))
    rows.claim(["t"], "g2")
    assert rows.start(number, "g1", "1.1") is None
    assert rows.start(number, "g2", "2.2") == 1


def test_starts_are_counted_over_all_groups() -> None:
    number = rows.put("t", "text")
    for expected, group in enumerate(["g1", "g2", "g3"], 1):
        rows.claim(["t"], group)
        assert rows.start(number, group, "1.1") == expected
        rows.requeue(JobRun.objects.filter(group=group))


def test_only_the_first_who_finds_a_holder_dead_frees_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    number = rows.put("t", "text")
    rows.claim(["t"], "g")
    rows.start(number, "g", "1.1")

    def another_is_faster(mark: str) -> bool:
        assert rows.requeue(JobRun.objects.filter(worker=mark)) == 1
        rows.claim(["t"], "g")
        assert rows.start(number, "g", "2.2") == 2
        return False

    monkeypatch.setattr(worker_groups, "is_running", another_is_faster)
    assert worker_groups.requeue_of_dead_workers("g") == 0
    assert rows.claim(["t"], "g") is None


def test_a_postponed_message_waits() -> None:
    number = rows.put("t", "text")
    rows.claim(["t"], "g1")
    rows.postpone(number, 100)
    assert rows.claim(["t"], "g1") is None
    OrmQ.objects.update(lock=timezone.now())
    assert rows.claim(["t"], "g2") is not None


def test_a_dead_group_gives_everything_back() -> None:
    dead = dead_group()
    worker_groups.beat(dead, ["t"])
    rows.put("t", "text")
    rows.put(worker_groups.ping_key(dead), "its own ping")
    rows.claim(["t"], dead)
    Lease.objects.create(name="p", holder=dead, expires_at=timezone.now() + timedelta(hours=1))
    assert rows.claim(["t"], "g2") is None
    rows.claim([worker_groups.ping_key(dead)], dead)
    assert worker_groups.forget_dead(judge_others=False) == 2
    assert JobRun.objects.count() == 1, "its ping was taken, and goes with it"
    assert rows.claim(["t"], "g2") is not None
    assert not WorkerBeat.objects.exists()
    assert not OrmQ.objects.filter(key=worker_groups.ping_key(dead)).exists()
    assert Lease.objects.get().expires_at <= timezone.now()


def test_the_living_keep_what_they_have() -> None:
    mine = worker_groups.name_of_group()
    worker_groups.beat(mine, ["t"])
    rows.put("t", "text")
    rows.claim(["t"], mine)
    assert worker_groups.forget_dead(judge_others=True) == 0
    assert rows.claim(["t"], "g2") is None
    assert live_workers() == 1


def test_a_silent_group_elsewhere_is_judged_only_by_who_was_not_cut_off_itself() -> None:
    worker_groups.beat(f"{ELSEWHERE}:77.1", ["t"])
    rows.put("t", "text")
    rows.claim(["t"], f"{ELSEWHERE}:77.1")
    assert worker_groups.forget_dead(judge_others=True) == 0
    WorkerBeat.objects.update(beat_at=timezone.now() - timedelta(seconds=worker_groups.SILENT_AFTER + 1))
    assert worker_groups.forget_dead(judge_others=False) == 0
    assert worker_groups.forget_dead(judge_others=True) == 1


def test_a_dead_worker_of_a_live_group_gives_its_message_back() -> None:
    first, second = rows.put("t", "one"), rows.put("t", "two")
    rows.claim(["t"], "g")
    rows.claim(["t"], "g")
    rows.start(first, "g", dead_group().rpartition(":")[2])
    rows.start(second, "g", worker_groups.process_mark(os.getpid()))
    assert worker_groups.requeue_of_dead_workers("g") == 1
    again = rows.claim(["t"], "g")
    assert again is not None
    assert again.id == first


@pytest.mark.django_db(transaction=True)
def test_a_group_in_which_nothing_begins_ends_itself() -> None:
    mine = worker_groups.name_of_group()
    watchdog = Watchdog(mine, ["t"], periodic=False)
    watchdog.look()
    assert OrmQ.objects.filter(key=worker_groups.ping_key(mine)).count() == 1
    watchdog.progress = timezone.now() - timedelta(hours=1)
    worker_groups.answer_ping(mine)
    watchdog.look()
    watchdog.progress = timezone.now() - timedelta(hours=1)
    WorkerBeat.objects.update(ping_at=None)
    with pytest.raises(StuckError):
        watchdog.look()
