"""Server actions from their registry: what each is asked with, and the way to a state from which it may begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, cast
from uuid import uuid4

from provisioning.common.context import RequestContext
from provisioning.compute import actions as package
from provisioning.compute.actions.base import HostAction
from provisioning.compute.actions.rebuild import Rebuild
from provisioning.compute.actions.registry import actions, host_actions
from provisioning.compute.actions.rescue import RescueWith
from provisioning.compute.actions.resize import ResizeTo
from provisioning.compute.actions.snapshot import NewImage
from provisioning.compute.disks.snapshot_images import BACKUP, ServerImage
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from tests.support.clouds import Cloud
from tests.support.ports import guest_ports

REQUESTS: dict[str, Callable[[Cloud, Instance], Any]] = {
    "change_password": lambda cloud, server: "new",
    "rescue": lambda cloud, server: RescueWith(),
    "rebuild": lambda cloud, server: Rebuild(str(cloud.image.id), admin_password="secret"),
    "resize": lambda cloud, server: ResizeTo("2"),
    "snapshot": lambda cloud, server: NewImage(ServerImage(uuid4(), "copy")),
    "backup": lambda cloud, server: NewImage(
        ServerImage(uuid4(), "copy", BACKUP, {"backup_type": "daily"}), {"rotation": "1", "backup_type": "daily"}
    ),
    "unshelve": lambda cloud, server: None,
    "attach_interface": lambda cloud, server: NetworkRequest(str(cloud.network.id)),
    "detach_interface": lambda cloud, server: str(guest_ports().get(device_id=server.id).id),
}
"""What is asked of each action that takes a request; a new one has to be added here, and nowhere else in the tests."""


def begin(key: str, context: RequestContext, cloud: Cloud, server: Instance) -> None:
    """Begin an action with its request of ``REQUESTS``."""
    action = actions[key]
    assert action.takes_request == (key in REQUESTS), f"tests/support/actions.py does not know what {key} is asked with"
    action.begin(context, server.id, REQUESTS[key](cloud, server) if key in REQUESTS else None)


def way_to(action: HostAction[Any, Any]) -> list[str]:
    """Return the keys of the actions that lead an active server to the nearest state from which this one may begin."""
    seen, queue = {VmState.ACTIVE}, deque([(VmState.ACTIVE, list[str]())])
    while queue:
        here, path = queue.popleft()
        if here in action.from_states:
            return path
        for step in host_actions.values():
            there = next(iter(step.ends.values()), None)
            if step.task is not None and here in step.from_states and there is not None and there not in seen:
                seen.add(there)
                queue.append((there, [*path, step.key]))
    raise LookupError(f"No action leads to a state from which {action.key} may begin.")


def service(name: str) -> Callable[..., Any]:
    """Return the function that begins an action by its name: ``stop``, ``rescue``, ``create_image`` …

    An action without a function of its own is begun by its class, ``Stop``, or by its key.
    """
    class_name = name.title().replace("_", "")
    for result in iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{result.name}")
        function = vars(module).get(name)
        if callable(function):
            return function
        its_class = vars(module).get(class_name)
        if hasattr(its_class, "begin") and its_class.__module__ == module.__name__:
            return cast("Callable[..., Any]", its_class.begin)
    if name in actions:
        return actions[name].begin
    raise LookupError(f"There is no service {name}.")
