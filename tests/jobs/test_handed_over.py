"""A worker group that is asked to stop finishes what it has in hand and gives back at once what it has only taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.jobs.models import JobRun, Lease, WorkerBeat
from provisioning.jobs.queue import rows, worker_groups
from provisioning.jobs.queue.cast import cast
from tests.jobs.conftest import PATIENCE, Group, eventually, words
from tests.jobs.test_workers import queue_is_empty
from tests.jobs.worker import TOPICS

pytestmark = pytest.mark.both_databases

StartGroup = Callable[..., Group]


@pytest.mark.deep
def test_nothing_waits_for_a_group_that_was_stopped(start_group: StartGroup, log: Path, tmp_path: Path) -> None:
    """One job runs and others are taken or wait: none is lost, none runs twice, and the next group begins at once."""
    group = start_group(workers=1, periodic=True)
    release = tmp_path / "release"
    for _ in range(5):
        cast(TOPICS[0], "tests.worker.wait_for_file", log=str(log), release=str(release))
    eventually(lambda: words(log) == ["begun"], "the first job began")
    eventually(lambda: JobRun.objects.count() > 1, "another one was taken")
    group.ask_to_stop()
    release.touch()
    assert group.process.wait(PATIENCE) == 0
    assert Counter(words(log))["begun"] == Counter(words(log))["ended"] >= 1, "a job in hand was broken off"
    assert not WorkerBeat.objects.exists()
    assert not JobRun.objects.exclude(group="").exists()
    left = OrmQ.objects.filter(key__in=TOPICS)
    assert set(left.values_list("lock", flat=True)) <= {rows.FREE}
    assert not Lease.objects.filter(expires_at__gt=timezone.now()).exists()
    start_group(workers=1)
    eventually(queue_is_empty, "all jobs are done")
    assert Counter(words(log)) == {"begun": 5, "ended": 5}


def test_a_running_group_takes_over_at_once(start_group: StartGroup, log: Path, tmp_path: Path) -> None:
    """The first is killed with a job in hand; the other gives the job back to the queue with its next beat."""
    first = start_group(workers=1)
    release = tmp_path / "release"
    cast(TOPICS[0], "tests.worker.wait_for_file", log=str(log), release=str(release))
    eventually(lambda: words(log) == ["begun"], "the job began")
    start_group(workers=1)
    Lease.objects.create(name="p", holder=worker_groups.name_of_group(first.process.pid), expires_at=timezone.now())
    first.kill()
    eventually(lambda: words(log) == ["begun", "begun"], "the job began again")
    release.touch()
    eventually(queue_is_empty, "the job is done")
    assert words(log) == ["begun", "begun", "ended"]
    eventually(lambda: WorkerBeat.objects.count() == 1, "the first one is forgotten, after its job was given back")
    assert Lease.objects.get(name="p").holder == ""
