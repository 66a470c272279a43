"""``manage.py after_restore``: what runs before a cloud is started with records from a copy."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from provisioning.hosts import restored
from provisioning.hosts.models import Restore
from provisioning.jobs.models import Lease, WorkerBeat
from provisioning.jobs.periodic.absence import absence
from provisioning.jobs.queue import worker_groups

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> list[restored.Step]:
    monkeypatch.setattr(restored, "LOOK_AGAIN", 0)
    return [*restored.STEPS]


def run() -> str:
    out = StringIO()
    call_command("after_restore", stdout=out)
    return out.getvalue()


def test_every_step_runs_and_says_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def step(name: str) -> list[str]:
        done.append(name)
        return [f"{name} said"]

    steps = (partial(step, "higher"), partial(step, "lower"))
    monkeypatch.setattr(restored.STEPS, "_entries", steps)
    output = run()
    assert done == ["higher", "lower"]
    assert output.index("higher said") < output.index("lower said")
    assert Restore.objects.get().lines == ["higher said", "lower said"]


def test_a_step_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[str]:
        raise RuntimeError

    monkeypatch.setattr(restored.STEPS, "_entries", (broken,))
    with pytest.raises(RuntimeError):
        restored.after_restore()
    assert not Restore.objects.exists()


def test_it_is_refused_while_a_worker_group_works(monkeypatch: pytest.MonkeyPatch) -> None:
    worker_groups.beat("here:1:1", ["conductor"])
    monkeypatch.setattr(restored.time, "sleep", lambda _: worker_groups.beat("here:1:1", ["conductor"]))
    with pytest.raises(CommandError):
        run()
    assert not Restore.objects.exists()


def test_signs_of_life_in_the_copy_itself_are_no_hindrance() -> None:
    now = timezone.now()
    for age in (timedelta(days=1), timedelta(seconds=1)):
        WorkerBeat.objects.all().delete()
        WorkerBeat.objects.create(name="there:1:1", topics="conductor", beat_at=now - age)
        run()
    assert Restore.objects.count() == 2


def test_the_age_of_the_copy_is_no_time_in_which_nobody_looked() -> None:
    """Else every deadline that the command sets would be moved by it."""
    began = timezone.now() - timedelta(days=1)
    Lease.objects.create(name="compute.reaper", holder="", expires_at=began, last_finished_at=began)
    assert absence("compute.reaper") is not None
    run()
    assert absence("compute.reaper") is None
