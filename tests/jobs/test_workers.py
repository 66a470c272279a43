"""Real worker groups: fast, at least once, never twice at a time, and stopped when a job kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import transaction
from django_q.models import OrmQ

from provisioning.jobs.models import JobRun, WorkerBeat
from provisioning.jobs.queue.cast import cast
from provisioning.jobs.queue.worker_groups import STUCK, process_mark
from provisioning.jobs.selectors import live_workers
from tests.jobs.conftest import PATIENCE, Group, eventually, is_idle, pids, words
from tests.jobs.worker import TOPICS

StartGroup = Callable[..., Group]


def queue_is_empty() -> bool:
    return not OrmQ.objects.filter(key__in=TOPICS).exists() and not JobRun.objects.exists()


@pytest.mark.both_databases
@pytest.mark.deep
def test_jobs_of_several_topics_run_soon_after_the_commit(start_group: StartGroup, log: Path) -> None:
    group = start_group()
    assert live_workers() == 1
    with transaction.atomic():
        cast(TOPICS[0], "tests.worker.note", log=str(log))
        cast(TOPICS[1], "tests.worker.other_topic", log=str(log))
    eventually(lambda: len(words(log)) == 2, "both jobs ran")
    assert words(log) == ["ran", "other"]
    eventually(queue_is_empty, "the queue is empty")
    assert group.stop() == 0
    assert not WorkerBeat.objects.exists()


@pytest.mark.both_databases
def test_a_killed_workers_job_is_run_once_more_at_once(start_group: StartGroup, log: Path, tmp_path: Path) -> None:
    start_group(workers=2)
    release = tmp_path / "release"
    cast(TOPICS[0], "tests.worker.wait_for_file", log=str(log), release=str(release))
    eventually(lambda: words(log) == ["begun"], "the job began")
    os.kill(pids(log)[0], signal.SIGKILL)
    eventually(lambda: words(log) == ["begun", "begun"], "the job began again")
    release.touch()
    eventually(queue_is_empty, "the job is done")
    assert words(log) == ["begun", "begun", "ended"]


@pytest.mark.deep
def test_a_message_comes_back_at_once_that_a_dead_worker_had_not_begun(start_group: StartGroup, log: Path) -> None:
    start_group(workers=1)
    cast(TOPICS[0], "tests.worker.die_at_the_next", log=str(log))
    eventually(lambda: words(log) == ["begun"], "the worker is about to die")
    cast(TOPICS[0], "tests.worker.note", log=str(log))
    eventually(lambda: words(log) == ["begun", "ran"], "the message came back")
    eventually(queue_is_empty, "all is done")


@pytest.mark.deep
def test_a_killed_groups_jobs_return_with_the_next_group(start_group: StartGroup, log: Path, tmp_path: Path) -> None:
    group = start_group(workers=1)
    release = tmp_path / "release"
    for _ in range(3):  # one runs, the others are taken or wait
        cast(TOPICS[0], "tests.worker.wait_for_file", log=str(log), release=str(release))
    eventually(lambda: words(log) == ["begun"], "the first job began")
    group.kill()
    release.touch()
    start_group(workers=1)
    eventually(queue_is_empty, "all jobs are done")
    assert words(log) == ["begun"] + ["begun", "ended"] * 3


@pytest.mark.deep
@pytest.mark.parametrize(
    "victim", ["idle worker", *(pytest.param(name, marks=pytest.mark.deep) for name in ("pusher", "watchdog"))]
)
def test_a_death_that_may_leave_a_lock_ends_the_whole_group(start_group: StartGroup, log: Path, victim: str) -> None:
    group = start_group(workers=1)
    cast(TOPICS[0], "tests.worker.note", log=str(log))
    eventually(lambda: words(log) == ["ran"], "the group works")
    eventually(lambda: group.output.read_text().count("Processed '") == 2, "the worker is done with it, and its ping")
    worker = pids(log)[0]
    eventually(lambda: is_idle(worker), "the worker waits for the next job")
    watchdog, sentinel = group.descendants()[:2]
    below = [pid for pid in group.descendants() if pid not in {watchdog, sentinel, worker}]
    os.kill({"idle worker": worker, "pusher": max(below), "watchdog": watchdog}[victim], signal.SIGKILL)
    assert group.process.wait(PATIENCE) == STUCK
    eventually(lambda: process_mark(worker) == "", "no worker is left behind")


@pytest.mark.deep
def test_a_worker_that_dies_with_the_lock_of_its_timer_ends_the_group(start_group: StartGroup, log: Path) -> None:
    group = start_group(workers=1)
    cast(TOPICS[0], "tests.worker.die_with_the_lock", log=str(log))
    assert group.process.wait(PATIENCE) == STUCK, "its sentinel waits for that lock for ever"


@pytest.mark.deep
def test_a_job_that_kills_its_worker_is_stopped(start_group: StartGroup, log: Path) -> None:
    start_group(workers=1)
    cast(TOPICS[0], "tests.worker.kill_worker", log=str(log))
    eventually(queue_is_empty, "it was given up")
    assert words(log) == ["begun"] * 3 + ["given-up"]
    assert "started 3 times and its worker died" in Path(f"{log}.reason").read_text()
    cast(TOPICS[0], "tests.worker.note", log=str(log))
    eventually(lambda: words(log)[-1] == "ran", "the group works on")


@pytest.mark.deep
def test_a_job_that_raises_is_tried_again_and_then_given_up(start_group: StartGroup, log: Path) -> None:
    group = start_group(workers=1)
    cast(TOPICS[0], "tests.worker.fail", log=str(log))
    eventually(queue_is_empty, "it was given up")
    assert words(log) == ["begun"] * 3 + ["given-up"]
    assert len(set(pids(log))) == 1  # the worker lives on
    assert WorkerBeat.objects.get().jobs_failed == 3
    assert "this job always fails" in group.output.read_text()


@pytest.mark.deep
@pytest.mark.both_databases
def test_two_groups_share_the_work_and_run_nothing_twice(start_group: StartGroup, log: Path) -> None:
    start_group(workers=2)
    start_group(workers=2)
    for number in range(60):
        cast(TOPICS[0], "tests.worker.note", log=str(log), word=f"job-{number}")
    eventually(queue_is_empty, "all jobs are done")
    assert sorted(words(log)) == sorted(f"job-{number}" for number in range(60))
    assert len(set(pids(log))) > 1


def test_stopping_finishes_the_job_in_hand(start_group: StartGroup, log: Path, tmp_path: Path) -> None:
    group = start_group(workers=1)
    release = tmp_path / "release"
    cast(TOPICS[0], "tests.worker.wait_for_file", log=str(log), release=str(release))
    eventually(lambda: words(log) == ["begun"], "the job began")
    group.ask_to_stop()
    release.touch()
    assert group.process.wait(PATIENCE) == 0
    assert words(log) == ["begun", "ended"]
    assert queue_is_empty()
