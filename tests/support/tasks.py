"""A server in the middle of any task that a host ends, by the registry of server actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.messages import Command
from provisioning.common.context import RequestContext
from provisioning.compute.actions.base import BROKE, HostAction
from provisioning.compute.actions.registry import of_task
from provisioning.compute.models import Instance
from provisioning.compute.states import TaskState, VmState
from provisioning.images.models import Image
from tests.support.actions import begin, service, way_to
from tests.support.clouds import Cloud, context
from tests.support.scripted_agent import ScriptedAgent

PUT_BACK = {"resize"}
"""Actions that leave a server as it was when their host says that it could not, and in ERROR when it says nothing."""


@dataclass
class Scene:
    """One server on one host, and what goes on with it."""

    cloud: Cloud
    server: Instance
    host: ScriptedAgent
    settings: Any
    action: HostAction[Any, Any]
    before: str = ""
    """Where the server was when the action began."""

    @property
    def well(self) -> str:
        """Return where the server is when it ended well."""
        return next(iter(self.action.ends.values())) or self.before

    @property
    def badly(self) -> str:
        """Return where the server is when its host could not do it."""
        broken = self.action.badly == BROKE and self.action.key not in PUT_BACK
        return VmState.ERROR if broken else self.before

    def do(self, name: str, *rest: Any, **more: Any) -> object:
        """Ask for an action in a request of its own, as the server's owner."""
        return service(name)(context("alice"), self.server.id, *rest, **more)

    def now(self) -> Instance:
        return self.cloud.fresh(self.server)


def in_the_middle_of(
    task: TaskState, cloud: Cloud, caller: RequestContext, settings: Any, at_rest: Callable[[], object] = lambda: None
) -> Scene:
    """Return a server in the middle of the task; deleted and shelved servers stay on their hosts.

    ``at_rest`` is called before the action begins.
    """
    settings.RECLAIM_INSTANCE_INTERVAL, settings.SHELVED_OFFLOAD_TIME = 3600, -1
    host = cloud.add_host("kelvin", memory_mb=16384)
    Image.objects.filter(id=cloud.image.id).update(properties={"hw_qemu_guest_agent": "yes"})
    action = of_task[task]
    scene = Scene(cloud, cloud.launch(caller), host, settings, action)
    for key in [*way_to(action), action.key]:
        cloud.run()
        scene.before = scene.now().vm_state
        at_rest()
        begin(key, context("alice"), cloud, scene.server)
    _reach(scene, task)
    return scene


def _reach(scene: Scene, task: TaskState) -> None:
    """Let the host report how far it is; a task that passes within a transaction is set by hand."""
    if scene.now().task_state != task and scene.action.body is SnapshotRequest:
        (command,) = scene.host.take(acknowledge=False)
        scene.host.copied(command)
        assert scene.now().task_state == task
    Instance.objects.filter(id=scene.server.id).update(task_state=task)


def the_command(scene: Scene) -> Command:
    """The command that the task waits for, as its host takes it."""
    return scene.host.take()[-1]
