"""Every task that a host ends: ended well, badly, by silence, by a delete and by hand, nothing is left over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.messages import Command
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.rebuild import Rebuild
from provisioning.compute.actions.registry import commanded_tasks
from provisioning.compute.actions.reset_state import reset_state
from provisioning.compute.models import Instance, InstanceAction, InstanceFault, Migration
from provisioning.compute.states import TaskState as T
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import HostCommand
from provisioning.images.models import Image
from tests.support import invariants
from tests.support.actions import service
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
Act = Callable[["Scene"], object]


@dataclass
class Scene:
    """One server on one host, and what goes on with it."""

    cloud: Cloud
    server: Instance
    host: ScriptedAgent
    settings: Any

    def do(self, name: str, *rest: Any, **more: Any) -> object:
        """Ask for an action in a request of its own, as the server's owner."""
        return service(name)(context("alice"), self.server.id, *rest, **more)

    def now(self) -> Instance:
        return self.cloud.fresh(self.server)


def keep(scene: Scene) -> None:
    """Deletes can be taken back."""
    scene.settings.RECLAIM_INSTANCE_INTERVAL = 3600


def on_the_shelf(scene: Scene) -> None:
    """The shelved stay on their hosts."""
    scene.settings.SHELVED_OFFLOAD_TIME = -1
    scene.do("shelve")


def copied(scene: Scene) -> None:
    (command,) = scene.host.take(acknowledge=False)
    scene.host.copied(command)


def rebuild(scene: Scene) -> None:
    scene.do("rebuild", Rebuild(str(scene.cloud.image.id), admin_password="secret"))


def stays_in(task: T) -> Act:
    """A task that passes within a transaction, as if a process had stopped in it."""

    def act(scene: Scene) -> None:
        scene.do("resize", "2")
        Instance.objects.filter(id=scene.server.id).update(task_state=task)

    return act


@dataclass(frozen=True)
class Row:
    """How a server gets into a task, each step followed by rest but for the last; where it is when it ended well, and
    badly.
    """

    acts: tuple[Act, ...]
    well: str
    badly: str

    @classmethod
    def of(cls, *names: str | Act, well: str, badly: str) -> Row:
        return cls(tuple(cls._act(name) for name in names), well, badly)

    @staticmethod
    def _act(name: str | Act) -> Act:
        return (lambda scene: scene.do(name)) if isinstance(name, str) else name


TABLE: dict[T, Row] = {
    T.POWERING_ON: Row.of("stop", "start", well="active", badly="stopped"),
    T.POWERING_OFF: Row.of("stop", well="stopped", badly="active"),
    T.REBOOTING: Row.of("reboot", well="active", badly="active"),
    T.REBOOTING_HARD: Row.of(lambda scene: scene.do("reboot", hard=True), well="active", badly="active"),
    T.PAUSING: Row.of(lambda scene: scene.do("pause"), well="paused", badly="active"),
    T.UNPAUSING: Row.of(
        lambda scene: scene.do("pause"),
        lambda scene: scene.do("unpause"),
        well="active",
        badly="paused",
    ),
    T.SUSPENDING: Row.of(lambda scene: scene.do("suspend"), well="suspended", badly="active"),
    T.RESUMING: Row.of(
        lambda scene: scene.do("suspend"),
        lambda scene: scene.do("resume"),
        well="active",
        badly="suspended",
    ),
    T.UPDATING_PASSWORD: Row.of(lambda scene: scene.do("change_password", "new"), well="active", badly="active"),
    T.RESCUING: Row.of("rescue", well="rescued", badly="active"),
    T.UNRESCUING: Row.of("rescue", "unrescue", well="active", badly="rescued"),
    T.REBUILDING: Row.of(rebuild, well="active", badly="error"),
    T.RESIZE_PREP: Row.of(stays_in(T.RESIZE_PREP), well="resized", badly="active"),
    T.RESIZE_MIGRATING: Row.of(lambda scene: scene.do("resize", "2"), well="resized", badly="active"),
    T.RESIZE_FINISH: Row.of(stays_in(T.RESIZE_FINISH), well="resized", badly="active"),
    T.RESIZE_CONFIRMING: Row.of(
        lambda scene: scene.do("resize", "2"), "confirm_resize", well="active", badly="resized"
    ),
    T.RESIZE_REVERTING: Row.of(lambda scene: scene.do("resize", "2"), "revert_resize", well="active", badly="error"),
    T.IMAGE_SNAPSHOT: Row.of(lambda scene: scene.do("create_image", "copy"), well="active", badly="active"),
    T.IMAGE_BACKUP: Row.of(lambda scene: scene.do("create_backup", "copy", "daily", 1), well="active", badly="active"),
    T.IMAGE_UPLOADING: Row.of(
        lambda scene: (scene.do("create_image", "copy"), copied(scene)), well="active", badly="active"
    ),
    T.SHELVING: Row.of(on_the_shelf, well="shelved", badly="active"),
    T.SHELVING_IMAGE_UPLOADING: Row.of(
        lambda scene: (on_the_shelf(scene), copied(scene)), well="shelved", badly="active"
    ),
    T.UNSHELVING: Row.of(on_the_shelf, "unshelve", well="active", badly="shelved"),
    T.SOFT_DELETING: Row.of(lambda scene: (keep(scene), scene.do("delete")), well="soft-delete", badly="active"),
    T.RESTORING: Row.of(lambda scene: (keep(scene), scene.do("delete")), "restore", well="active", badly="soft-delete"),
}


@pytest.fixture(params=commanded_tasks(), ids=lambda task: task.value)
def scene(request: pytest.FixtureRequest, cloud: Cloud, alice: RequestContext, settings: Any) -> Scene:
    """A server in the middle of the task."""
    host = cloud.add_host("kelvin", memory_mb=16384)
    Image.objects.filter(id=cloud.image.id).update(properties={"hw_qemu_guest_agent": "yes"})
    made = Scene(cloud, cloud.launch(alice), host, settings)
    for act in TABLE[request.param].acts:
        cloud.run()
        act(made)
    assert made.now().task_state == request.param
    return made


@pytest.fixture
def row(scene: Scene) -> Row:
    return TABLE[T(scene.now().task_state or "")]


def the_order(scene: Scene) -> Command:
    """The order that the task waits for, as its host takes it."""
    return scene.host.take()[-1]


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


def test_the_table_has_every_task() -> None:
    assert set(TABLE) == set(commanded_tasks())


def test_a_good_end(scene: Scene, row: Row) -> None:
    scene.cloud.run()
    rests(scene, row.well)
    assert last_action(scene).message is None
    before = scene.now().version
    scene.host.repeat_everything()
    assert scene.now().version == before
    goes(scene)


def test_a_bad_end(scene: Scene, row: Row) -> None:
    command = the_order(scene)
    scene.host.report(command, "failed", error_code="host_failed", message="It broke.")
    rests(scene, row.badly)
    assert last_action(scene).message == "It broke."
    assert InstanceFault.objects.get().message == "It broke."
    scene.host.report(command, "finished", power_state=1)
    scene.host.repeat_everything()
    rests(scene, row.badly)
    goes(scene)


def test_silence_until_the_deadline(scene: Scene) -> None:
    command = the_order(scene)
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


def test_a_delete_in_the_middle(scene: Scene) -> None:
    command = the_order(scene)
    delete(context("alice"), scene.server.id, force=True)
    for kind in ("failed", "finished"):
        scene.host.report(command, kind, power_state=1)
        invariants.check()
    scene.cloud.run()
    gone(scene)


def test_a_delete_in_the_middle_with_the_host_away(scene: Scene) -> None:
    the_order(scene)
    host = type(scene.host.host).objects.filter(id=scene.host.host.id)
    host.update(connected=False, last_seen_at=timezone.now() - timedelta(days=1))
    delete(context("alice"), scene.server.id, force=True)
    assert state_of(scene.server) == ("deleted", None)
    invariants.check()
    scene.host.hello()
    scene.cloud.run()
    gone(scene)


def test_a_reset_in_the_middle(scene: Scene) -> None:
    command = the_order(scene)
    reset_state(context("operator", ADMIN), scene.server.id, "active")
    rests(scene, "active")
    scene.host.report(command, "finished", power_state=1)
    rests(scene, "active")
    goes(scene)


@pytest.mark.parametrize("to", ["active", "error"])
@pytest.mark.parametrize(
    "scene",
    [T.REBUILDING, T.RESIZE_MIGRATING, T.RESIZE_CONFIRMING, T.RESIZE_REVERTING, T.IMAGE_UPLOADING, T.UNSHELVING],
    ids=lambda task: task.value,
    indirect=True,
)
def test_what_was_reset_in_the_middle_can_be_shelved_and_come_back(scene: Scene, to: Any) -> None:
    """Sizes, rooms, images and ports are in order again behind it, whatever was cut off."""
    the_order(scene)
    reset_state(context("operator", ADMIN), scene.server.id, to)
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
