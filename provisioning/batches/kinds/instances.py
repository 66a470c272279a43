"""Batches of instances."""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from django.utils import timezone

from provisioning.batches.kinds.base import copy_name, each, ending_argument, read_ids
from provisioning.batches.kinds.declaration import Argument, BatchAction, Kind, Refusals, Task
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute import selectors as compute
from provisioning.compute.actions.base import HostAction, ServerAction
from provisioning.compute.actions.delete import Delete, delete_once
from provisioning.compute.actions.evacuate import Evacuate, may_be_evacuated
from provisioning.compute.actions.lock import Lock, Unlock
from provisioning.compute.actions.power import HardReboot, Reboot, Start, Stop
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.actions.unshelve import Unshelve
from provisioning.compute.actions.ways import Button
from provisioning.compute.models import Instance
from provisioning.compute.services import tags
from provisioning.compute.states import AT_REST, VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.identity import policy

PERMANENT = "permanent"
"""The argument with the ids of deleted resources that are to be deleted permanently."""
TAG = "tag"


def _check_tag(text: str) -> None:
    if not text:
        raise InvalidInputError("Enter a tag.")
    tags.check_tags([text])


_tag = Argument(TAG, "Tag", "One word or a few, without / and commas.", _check_tag, tags.LONGEST)


def _instances(context: RequestContext, ids: Sequence[str]) -> Iterator[Instance]:
    """Yield the project's instances, including those that can be restored."""
    known = read_ids(ids)
    yield from compute.instances_for(context, ids=known) if known else ()
    yield from compute.instances_for(context, ids=known, status="SOFT_DELETED") if known else ()


def _begin(action: ServerAction[Any]) -> Callable[[Task], None]:
    def run(task: Task) -> None:
        if not action.offered(task.record):
            raise ConflictError(f"{action.why_not(task.record).capitalize()}.")
        action.begin(task.context, task.id)

    return run


def _state(record: Instance) -> str:
    """Return the state of an instance that prevents an action."""
    if record.task_state:
        return "busy"
    return "in error" if record.vm_state == VmState.ERROR else str(record.vm_state).replace("_", " ")


def _refusals_of(action: ServerAction[Any]) -> Refusals:
    """Return the refusals of an action, as the action itself and its host would refuse it."""
    on_host = isinstance(action, HostAction) and action.key != Delete.key

    def reason(record: Instance, silent: Collection[uuid.UUID | None], *, masters: bool) -> str:
        if record.locked and action.heeds_lock and not masters:
            return "locked"
        if on_host and record.host_id is None and record.vm_state in {VmState.BUILDING, VmState.ERROR}:
            return "not on a host"
        if not action.offered(record):
            locking = {Lock.key: "locked", Unlock.key: "not locked"}
            return locking.get(action.key) or _state(record)
        return "on a host that does not answer" if on_host and record.host_id in silent else ""

    def refusals(context: RequestContext, records: Sequence[Any]) -> dict[Any, str]:
        masters = policy.allows(context, "os_compute_api:os-lock-server:unlock:unlock_override")
        hosts = Host.objects.filter(pk__in={record.host_id for record in records}) if on_host else ()
        silent = {host.pk for host in hosts if not is_alive(host, timezone.now())}
        found = {record.pk: reason(record, silent, masters=masters) for record in records}
        return {key: text for key, text in found.items() if text}

    return refusals


def _of_button(of_one: type[ServerAction[Any]]) -> BatchAction:
    """Return the batch action that corresponds to a button of an instance."""
    action = of_one()
    button = action.button
    assert isinstance(button, Button)  # noqa: S101 - a mistake in the list below
    return BatchAction(
        button.name,
        button.label,
        button.icon,
        action.rule,
        button.consequence,
        _begin(action),
        danger=button.danger,
        refusals=_refusals_of(action),
        undone_by=_REVERSED.get(button.name, ""),
    )


def _delete_instance(task: Task) -> None:
    delete_once(task.context, task.id, permanent=str(task.id) in task.arguments.get(PERMANENT, ()))


def _add_tag(task: Task) -> None:
    tags.add_tag(task.context, task.id, task.arguments[TAG])


def _remove_tag(task: Task) -> None:
    if task.arguments[TAG] in task.record.tags:
        tags.delete_tag(task.context, task.id, task.arguments[TAG])


def _image_of(task: Task) -> None:
    create_image(task.context, task.id, copy_name(task))


_REVERSED = {"start": "stop", "stop": "start", "lock": "unlock", "unlock": "lock"}
"""Action → the action that reverses it."""
_OF_ONE: Sequence[type[ServerAction[Any]]] = (Start, Stop, Reboot, HardReboot, Shelve, Unshelve, Lock, Unlock)
INSTANCES = Kind(
    "instances",
    "instance",
    "instances",
    _instances,
    (
        *(_of_button(one) for one in _OF_ONE),
        BatchAction(
            "tag",
            "Add tag",
            "tag",
            "os_compute_api:os-server-tags:update",
            "Instances with this tag keep it.",
            _add_tag,
            argument=_tag,
        ),
        BatchAction(
            "untag",
            "Remove tag",
            "tag",
            "os_compute_api:os-server-tags:delete",
            "Instances without this tag do not change.",
            _remove_tag,
            argument=_tag,
        ),
        BatchAction(
            "image",
            "Create image",
            "camera",
            "os_compute_api:servers:create_image",
            "An image of the root disk of each, while it keeps running.",
            _image_of,
            argument=ending_argument,
            refusals=each(
                lambda record: "" if record.vm_state in AT_REST and not record.task_state else _state(record)
            ),
        ),
        BatchAction(
            "delete",
            "Delete",
            "trash",
            Delete.rule,
            "The guests are stopped and their disks are deleted. This cannot be undone.",
            _delete_instance,
            deletes=True,
            danger=True,
            refusals=_refusals_of(Delete()),
        ),
    ),
    is_kept=lambda record: record.vm_state == VmState.SOFT_DELETED,
)


def _servers_to_evacuate(context: RequestContext, ids: Sequence[str]) -> Iterable[Instance]:
    """Return the servers of all projects, for callers who may evacuate them."""
    if not policy.allows(context, Evacuate.rule):
        return []
    return Instance.objects.select_related("host").filter(pk__in=read_ids(ids), deleted_at=None)


SERVERS = Kind(
    "servers",
    "instance",
    "instances",
    _servers_to_evacuate,
    (
        BatchAction(
            Evacuate.key,
            "Evacuate",
            "truck",
            Evacuate.rule,
            "Volumes keep their data. Disks on the host are created again from the image.",
            lambda task: Evacuate.begin(task.context, task.id),
            danger=True,
            refusals=each(lambda record: "" if may_be_evacuated(record) else _state(record)),
        ),
    ),
)
