"""Jobs that take long: they keep nobody waiting, and lose nothing either."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.utils import timezone
from django_q.models import OrmQ
from pytest_django import Settings

from provisioning.jobs import registry
from provisioning.jobs.models import JobRun
from provisioning.jobs.queue import long_jobs, rows
from provisioning.jobs.queue.cast import cast
from tests.jobs.conftest import Group, eventually, pids, words
from tests.jobs.test_workers import queue_is_empty
from tests.jobs.worker import TOPICS

StartGroup = Callable[..., Group]


@pytest.mark.deep
def test_a_long_job_keeps_nobody_waiting(start_group: StartGroup, log: Path, tmp_path: Path) -> None:
    start_group(workers=1)
    release = tmp_path / "release"
    cast(TOPICS[0], "tests.worker.long", log=str(log), release=str(release))
    eventually(lambda: words(log) == ["begun"], "the long job began")
    cast(TOPICS[0], "tests.worker.note", log=str(log))
    eventually(lambda: words(log) == ["begun", "ran"], "the other ran meanwhile")
    eventually(lambda: OrmQ.objects.filter(key=TOPICS[0]).count() == 1, "only the long job is in the queue")
    assert words(log) == ["begun", "ran"]
    release.touch()
    eventually(queue_is_empty, "the long job is done")
    assert words(log) == ["begun", "ran", "ended"]


@pytest.mark.deep  # an import goes on likewise after the death of its worker
@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.both_databases
def test_a_long_job_is_run_again_when_its_worker_goes(
    start_group: StartGroup, log: Path, tmp_path: Path, how: str
) -> None:
    group = start_group(workers=1)
    release = tmp_path / "release"
    cast(TOPICS[0], "tests.worker.long", log=str(log), release=str(release))
    eventually(lambda: words(log) == ["begun"], "the long job began")
    if how == "killed":
        os.kill(pids(log)[0], signal.SIGKILL)
    else:
        assert group.stop() == 0
    start_group(workers=1)
    eventually(lambda: words(log) == ["begun", "begun"], "the long job began again")
    release.touch()
    eventually(queue_is_empty, "the long job is done")
    assert words(log) == ["begun", "begun", "ended"]


@pytest.mark.deep
def test_a_long_job_that_fails_is_given_up(start_group: StartGroup, log: Path) -> None:
    start_group(workers=1)
    cast(TOPICS[0], "tests.worker.fail_long", log=str(log))
    eventually(queue_is_empty, "it was given up")
    assert words(log) == ["begun"] * 3 + ["given-up"]


@pytest.mark.django_db(transaction=True)
def test_no_more_run_at_once_than_the_setting_says(settings: Settings) -> None:
    settings.LONG_JOBS = 1
    first, second = rows.put("t", "one"), rows.put("t", "two")
    rows.claim(["t"], "g")
    rows.claim(["t"], "g")
    release, ran = threading.Event(), []

    def work() -> None:
        assert release.wait(60)
        ran.append(1)

    long_jobs.begin(first, "g", work)
    long_jobs.begin(second, "g", lambda: ran.append(2))
    waiting = OrmQ.objects.get(id=second)
    assert waiting.lock <= timezone.now() + timedelta(seconds=long_jobs.BUSY_PAUSE)
    assert JobRun.objects.get(message_id=second).group == ""
    thread = next(each for each in threading.enumerate() if each.name == f"long-job-{first}")
    release.set()
    thread.join(60)
    assert ran == [1]


@pytest.mark.django_db(transaction=True)
def test_imports_leave_a_thread_to_others(settings: Settings) -> None:
    assert registry.jobs["images.import"].leaves_room
    assert not registry.jobs["notifications.deliver"].leaves_room
    settings.LONG_JOBS = 2
    numbers = [rows.put("t", text) for text in ("import", "import", "other")]
    for _ in numbers:
        rows.claim(["t"], "g")
    release, ran = threading.Event(), []

    def work(name: str) -> None:
        assert release.wait(60)
        ran.append(name)

    for number, name in zip(numbers, ("import", "import", "other"), strict=True):
        long_jobs.begin(number, "g", partial(work, name), leaves_room=name == "import")
    names = {f"long-job-{number}" for number in numbers}
    threads = [each for each in threading.enumerate() if each.name in names]
    release.set()
    for thread in threads:
        thread.join(60)
    assert sorted(ran) == ["import", "other"]
    assert JobRun.objects.get(message_id=numbers[1]).group == ""


@pytest.mark.django_db
def test_a_message_is_held_by_its_own_group_only() -> None:
    number = rows.put("t", "text")
    rows.claim(["t"], "g1")
    OrmQ.objects.update(lock=timezone.now())
    assert not rows.hold(number, "g2")
    assert rows.hold(number, "g1")
    assert rows.claim(["t"], "g2") is None
