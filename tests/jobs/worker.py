"""A real worker group on the tests' database, with jobs that note each of their runs in a file.

Run as ``python -m tests.jobs.worker <database name> <workers> [periodic]``; the tests import it to cast the same jobs.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

import django
from django.conf import settings

from provisioning.jobs import registry

TOPICS = ["worker-tests", "worker-tests-2"]


def note(log: str, word: str) -> None:
    with Path(log).open("a") as file:
        file.write(f"{word} {os.getpid()} {time.time()}\n")


def given_up(reason: str, log: str, **_: object) -> None:
    note(log, "given-up")
    Path(f"{log}.reason").write_text(reason)


@registry.job("tests.worker.note", topic=TOPICS[0])
def quick(log: str, word: str = "ran") -> None:
    note(log, word)


@registry.job("tests.worker.other_topic", topic=TOPICS[1])
def other_topic(log: str) -> None:
    note(log, "other")


@registry.job("tests.worker.wait_for_file", topic=TOPICS[0])
def wait_for_file(log: str, release: str) -> None:
    note(log, "begun")
    for _ in range(18_000):
        if Path(release).exists():
            note(log, "ended")
            return
        time.sleep(0.01)


@registry.job("tests.worker.long", topic=TOPICS[0], long=True)
def takes_long(log: str, release: str) -> None:
    wait_for_file(log, release)


@registry.job("tests.worker.fail_long", topic=TOPICS[0], on_give_up=given_up, long=True)
def fail_long(log: str) -> None:
    fail(log)


@registry.job("tests.worker.kill_worker", topic=TOPICS[0], on_give_up=given_up)
def kill_worker(log: str) -> None:
    note(log, "begun")
    os.kill(os.getpid(), signal.SIGKILL)


@registry.job("tests.worker.die_with_the_lock", topic=TOPICS[0])
def die_with_the_lock(log: str) -> None:
    """Let the worker die behind this job, while it holds the lock of its timer, which the sentinel needs."""
    from django_q.signals import post_execute_in_worker  # noqa: PLC0415 - needs the apps

    note(log, "begun")
    post_execute_in_worker.connect(_die)


@registry.job("tests.worker.die_at_the_next", topic=TOPICS[0])
def die_at_the_next(log: str) -> None:
    """Let the worker die with the next message in hand, before it has noted that it begins."""
    from provisioning.jobs.queue import rows  # noqa: PLC0415 - needs the apps

    note(log, "begun")
    rows.start = _die


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@registry.job("tests.worker.fail", topic=TOPICS[0], on_give_up=given_up)
def fail(log: str) -> None:
    note(log, "begun")
    message = "this job always fails"
    raise ValueError(message)


@registry.periodic("tests.worker.tick", every=0.2)
def tick() -> None:
    """Nothing; that it ran is in its lease."""


JOBS = (
    quick,
    other_topic,
    wait_for_file,
    takes_long,
    fail_long,
    kill_worker,
    die_with_the_lock,
    die_at_the_next,
    fail,
)


def _add() -> None:
    """Add these jobs to those of the cloud."""
    registry.jobs._entries = {**registry.jobs, **{each.name: each for each in JOBS}}
    registry.periodic_jobs._entries = {**registry.periodic_jobs, tick.name: tick}


if __name__ != "__main__":
    _add()
else:
    settings.DATABASES["default"]["NAME"] = sys.argv[1]
    django.setup()
    _add()
    from provisioning.jobs.queue import worker_groups
    from provisioning.jobs.workers import dispatch, watchdog
    from provisioning.jobs.workers.master import run_group

    logging.getLogger("django-q").setLevel(logging.INFO)
    dispatch.PAUSES = (0.1, 0.1)
    watchdog.BEAT = 1.0
    watchdog.STUCK_AFTER = worker_groups.SILENT_AFTER = 3600.0  # no test may pass by these last resorts
    sys.exit(run_group(TOPICS, int(sys.argv[2]), periodic="periodic" in sys.argv))
