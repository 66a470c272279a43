"""Every task that a host ends: ended well, badly, by silence, by a delete and by hand, nothing is left over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.registry import commanded_tasks
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.models import Instance, InstanceAction, InstanceFault, Migration
from provisioning.compute.states import TaskState as T
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import HostCommand
from provisioning.images.models import Image
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.passing_time import pass_time
from tests.support.tasks import Scene, in_the_middle_of, the_command

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
TASKS = commanded_tasks()
QUESTIONS = (
    "test_a_good_end",
    "test_a_bad_end",
    "test_silence_until_the_deadline",
    "test_signs_of_life_keep_the_task_alive_whatever_it_takes",
    "test_a_delete_in_the_middle",
    "test_a_delete_in_the_middle_with_the_host_away",
    "test_a_reset_in_the_middle",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask each task every question; at landing each task one of them, in turns, so that each question has several."""
    name = metafunc.function.__name__
    if name in QUESTIONS:
        turn = QUESTIONS.index(name)
        marks = [[] if number % len(QUESTIONS) == turn else [pytest.mark.deep] for number in range(len(TASKS))]
        rows = [pytest.param(task, marks=each, id=task.value) for task, each in zip(TASKS, marks, strict=True)]
        metafunc.parametrize("scene", rows, indirect=True)


@pytest.fixture
def scene(request: pytest.FixtureRequest, cloud: Cloud, alice: RequestContext, settings: Any) -> Scene:
    made = in_the_middle_of(request.param, cloud, alice, settings)
    invariants.check()
    return made


def rests(scene: Scene, vm_state: str) -> None:
    """The server is at rest there, every action is closed, and the sums are right."""
    assert state_of(scene.server) == (vm_state, None)
    assert not InstanceAction.objects.filter(instance=scene.server, finished_at=None).exists()
    assert not HostCommand.objects.filter(finished_at=None).exists()
    invariants.check()


def last_action(scene: Scene) -> InstanceAction:
    return InstanceAction.objects.filter(instance=scene.server).order_by("-id")[:1].get()


def goes(scene: Scene) -> None:
    """Delete it for good: nothing is left anywhere."""
    delete(context("alice"), scene.server.id, force=True)
    invariants.check()
    scene.cloud.run()
    gone(scene)


def gone(scene: Scene) -> None:
    rests(scene, "deleted")
    invariants.check_empty()
    assert scene.host.guests == {}
    halves = Image.objects.filter(status__in=["queued", "saving", "importing"])
    assert not halves.exists()
    shelves = Image.objects.filter(name__endswith="-shelved").exclude(status="deleted")
    assert not shelves.exists()
    assert not Migration.objects.exclude(status__in=["confirmed", "reverted", "error"]).exists()


def overdue(scene: Scene) -> None:
    """The deadline passes while nothing is said."""
    Instance.objects.filter(id=scene.server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()


def test_a_good_end(scene: Scene) -> None:
    scene.cloud.run()
    rests(scene, scene.well)
    assert last_action(scene).message is None
    before = scene.now().version
    scene.host.repeat_everything()
    assert scene.now().version == before
    goes(scene)


def test_a_bad_end(scene: Scene) -> None:
    command = the_command(scene)
    scene.host.report(command, "failed", error_code="host_failed", message="It broke.")
    rests(scene, scene.badly)
    assert last_action(scene).message == "It broke."
    assert InstanceFault.objects.get().message == "It broke."
    scene.host.report(command, "finished", power_state=1)
    scene.host.repeat_everything()
    rests(scene, scene.badly)
    goes(scene)


def test_silence_until_the_deadline(scene: Scene) -> None:
    command = the_command(scene)
    before = scene.now()
    overdue(scene)
    state = scene.now().vm_state
    assert state in {before.vm_state, "error"}
    rests(scene, state)
    assert "did not report" in (last_action(scene).message or "")
    assert InstanceFault.objects.count() == 1
    for kind in ("finished", "failed"):
        scene.host.report(command, kind, power_state=1)
    rests(scene, state)
    goes(scene)


def test_signs_of_life_keep_the_task_alive_whatever_it_takes(scene: Scene) -> None:
    command = the_command(scene)
    seconds = HostCommand.objects.get(id=command.id).timeout or 0
    before = state_of(scene.server)
    for _ in range(8):
        pass_time(0.8 * seconds)
        scene.host.report(command, "progress")
        pass_time(0.3 * seconds)
        reap()
        assert state_of(scene.server) == before
    pass_time(2 * seconds)
    reap()
    assert scene.now().task_state is None


def test_a_delete_in_the_middle(scene: Scene) -> None:
    command = the_command(scene)
    delete(context("alice"), scene.server.id, force=True)
    for kind in ("failed", "finished"):
        scene.host.report(command, kind, power_state=1)
        invariants.check()
    scene.cloud.run()
    gone(scene)


def test_a_delete_in_the_middle_with_the_host_away(scene: Scene) -> None:
    the_command(scene)
    host = type(scene.host.host).objects.filter(id=scene.host.host.id)
    host.update(connected=False, last_seen_at=timezone.now() - timedelta(days=1))
    delete(context("alice"), scene.server.id, force=True)
    assert state_of(scene.server) == ("deleted", None)
    invariants.check()
    scene.host.hello()
    scene.cloud.run()
    gone(scene)


def test_a_reset_in_the_middle(scene: Scene) -> None:
    command = the_command(scene)
    ResetState.begin(context("operator", ADMIN), scene.server.id, "active")
    rests(scene, "active")
    scene.host.report(command, "finished", power_state=1)
    rests(scene, "active")
    goes(scene)


@pytest.mark.parametrize("to", ["active", pytest.param("error", marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "scene",
    [
        T.RESIZE_MIGRATING,
        T.IMAGE_UPLOADING,
        *(
            pytest.param(task, marks=pytest.mark.deep)
            for task in (T.REBUILDING, T.RESIZE_CONFIRMING, T.RESIZE_REVERTING, T.UNSHELVING)
        ),
    ],
    ids=lambda task: task.value,
    indirect=True,
)
def test_what_was_reset_in_the_middle_can_be_shelved_and_come_back(scene: Scene, to: Any) -> None:
    """Sizes, rooms, images and ports are in order again behind it, whatever was cut off."""
    the_command(scene)
    ResetState.begin(context("operator", ADMIN), scene.server.id, to)
    scene.settings.SHELVED_OFFLOAD_TIME = 0
    if to == "error":
        scene.do("reboot", hard=True)
        scene.cloud.run()
    scene.do("shelve")
    scene.cloud.run()
    rests(scene, "shelved_offloaded")
    scene.do("unshelve")
    scene.cloud.run()
    rests(scene, "active")
    goes(scene)


def test_every_question_is_asked() -> None:
    tests = {name for name, value in globals().items() if name.startswith("test_") and "scene" in value.__annotations__}
    assert tests == {*QUESTIONS, "test_what_was_reset_in_the_middle_can_be_shelved_and_come_back"}
    assert len(TASKS) > len(QUESTIONS)
