"""The kinds of resources that batches can act on, and their actions."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from provisioning.batches.registry import Argument, BatchAction, Kind, Task
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.compute import selectors as compute
from provisioning.compute.actions.base import Button, ServerAction
from provisioning.compute.actions.delete import Delete, delete_once
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.actions.evacuation_checks import may_be_evacuated
from provisioning.compute.actions.lock import Lock, Unlock
from provisioning.compute.actions.power import HardReboot, Reboot, Start, Stop
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.actions.unshelve import Unshelve
from provisioning.compute.models import Instance, KeyPair
from provisioning.compute.services import tags
from provisioning.compute.services.key_pairs import delete_key_pair
from provisioning.compute.states import AT_REST, VmState
from provisioning.identity import policy
from provisioning.images import selectors as images
from provisioning.images import services as image_services
from provisioning.images.models import Image
from provisioning.images.records.fields import BECOMING
from provisioning.network import selectors as network
from provisioning.network import services as network_services
from provisioning.network.selectors import routing
from provisioning.volumes import selectors as volumes
from provisioning.volumes import services as volume_services
from provisioning.volumes.backups.backup_requests import BackupRequest
from provisioning.volumes.selectors import copies
from provisioning.volumes.services.backups import backups

PERMANENT = "permanent"
"""The argument with the ids of deleted resources that are to be deleted for good."""
ENDING, TAG, VISIBILITY = "ending", "tag", "visibility"
LONGEST_ENDING = 40
AUDIENCES = {
    Image.Visibility.PRIVATE.value: "the project that owns it",
    Image.Visibility.SHARED.value: "the project that owns it, and projects it is shared with",
    Image.Visibility.COMMUNITY.value: "projects that know its ID",
    Image.Visibility.PUBLIC.value: "all projects, in their lists",
}
"""Visibility of an image → the projects that see it."""


def _ids(texts: Sequence[str]) -> list[uuid.UUID]:
    return [known for known in map(read_id, texts) if known]


def _owners(record: Any) -> dict[str, object]:
    of_network = getattr(record, "network", None)
    owner = record.project_id if of_network is None else of_network.project_id
    return {"project_id": record.project_id, "network:project_id": owner, "network:tenant_id": owner}


def _of_project(
    name: str, singular: str, plural: str, visible: Callable[[RequestContext], QuerySet[Any]], *actions: BatchAction
) -> Kind:
    """Return a kind of records with an owner. ``visible`` returns the records that the caller sees."""
    return Kind(
        name, singular, plural, lambda context, ids: visible(context).filter(pk__in=_ids(ids)), actions, owners=_owners
    )


# ----- arguments ------------------------------------------------------------------------------------------------------


def _check_ending(text: str) -> None:
    if not text.isprintable():
        raise InvalidInputError("The text has control characters.")


def _check_tag(text: str) -> None:
    if not text:
        raise InvalidInputError("Enter a tag.")
    tags.check_tags([text])


_ending = Argument(
    ENDING,
    "Added to each name",
    "Each copy is named after its original, with this text at the end.",
    _check_ending,
    LONGEST_ENDING,
    lambda: timezone.now().strftime("-%Y-%m-%d"),
    optional=True,
)
_tag = Argument(TAG, "Tag", "One word or a few, without / and commas.", _check_tag, tags.LONGEST)


def _copy_name(task: Task) -> str:
    """Return the name of a copy, at most 255 characters."""
    ending = str(task.arguments.get(ENDING, ""))
    return f"{(task.record.name or str(task.id))[: 255 - len(ending)]}{ending}"


# ----- instances ------------------------------------------------------------------------------------------------------


def _instances(context: RequestContext, ids: Sequence[str]) -> Iterator[Instance]:
    """Yield the project's instances, including those that can be restored."""
    known = _ids(ids)
    yield from compute.instances_for(context, ids=known) if known else ()
    yield from compute.instances_for(context, ids=known, status="SOFT_DELETED") if known else ()


def _begin(action: ServerAction[Any]) -> Callable[[Task], None]:
    def run(task: Task) -> None:
        if not action.offered(task.record):
            raise ConflictError(f"{action.why_not(task.record).capitalize()}.")
        action.begin(task.context, task.id)

    return run


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
        possible=lambda record: action.offered(record) and not (record.locked and action.key != Unlock.key),
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
    create_image(task.context, task.id, _copy_name(task))


_REVERSED = {"start": "stop", "stop": "start", "lock": "unlock", "unlock": "lock"}
"""Action → the action that reverses it."""
_OF_ONE: Sequence[type[ServerAction[Any]]] = (Start, Stop, Reboot, HardReboot, Shelve, Unshelve, Lock, Unlock)
INSTANCES = Kind(
    "instances",
    "instance",
    "instances",
    _instances,
    (
        *(_of_button(each) for each in _OF_ONE),
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
            argument=_ending,
            possible=lambda record: record.vm_state in AT_REST and record.task_state is None,
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
            possible=lambda record: Delete().offered(record) and not record.locked,
        ),
    ),
    is_kept=lambda record: record.vm_state == VmState.SOFT_DELETED,
)


def _servers_to_evacuate(context: RequestContext, ids: Sequence[str]) -> Iterable[Instance]:
    """Return the servers of all projects, for callers who may evacuate them."""
    if not policy.allows(context, Evacuate.rule):
        return []
    return Instance.objects.select_related("host").filter(pk__in=_ids(ids), deleted_at=None)


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
            possible=may_be_evacuated,
        ),
    ),
)


# ----- volumes, snapshots and backups ---------------------------------------------------------------------------------


def _delete_volume(task: Task) -> None:
    volume_services.Delete.begin(task.context, task.id, volume_services.VolumeDeletion(cascade=True))


def _snapshot_volume(task: Task) -> None:
    volume_services.CreateSnapshot.begin(
        task.context, task.id, volume_services.SnapshotRequest(_copy_name(task), force=True)
    )


def _back_up_volume(task: Task) -> None:
    backups.CreateBackup.begin(task.context, task.id, BackupRequest(_copy_name(task), force=True))


def _delete_snapshot(task: Task) -> None:
    volume_services.DeleteSnapshot.begin(task.context, task.id, volume_services.Deletion())


def _delete_backup(task: Task) -> None:
    backups.DeleteBackup.begin(task.context, task.id, volume_services.Deletion())


def _delete(rule: str, consequence: str, run: Callable[[Task], object], label: str = "Delete") -> BatchAction:
    return BatchAction(label.lower(), label, "trash", rule, consequence, run, deletes=True, danger=True)


VOLUMES = _of_project(
    "volumes",
    "volume",
    "volumes",
    volumes.visible_volumes,
    BatchAction(
        "snapshot",
        "Take snapshot",
        "camera",
        volume_services.CreateSnapshot.rule,
        "Data that an instance has not yet written to its disk is not part of the snapshot.",
        _snapshot_volume,
        argument=_ending,
    ),
    BatchAction(
        "backup",
        "Back up",
        "archive",
        backups.CreateBackup.rule,
        "A copy outside the volume's pool, kept when the volume is deleted.",
        _back_up_volume,
        argument=_ending,
    ),
    _delete(
        "volume:delete",
        "Their data and their snapshots are lost. Backups are kept. This cannot be undone.",
        _delete_volume,
    ),
)
SNAPSHOTS = _of_project(
    "volume_snapshots",
    "snapshot",
    "snapshots",
    volumes.visible_snapshots,
    _delete(
        volume_services.DeleteSnapshot.rule,
        "Their volumes, and volumes created from them, do not change. This cannot be undone.",
        _delete_snapshot,
    ),
)
BACKUPS = Kind(
    "volume_backups",
    "backup",
    "backups",
    lambda context, ids: copies.visible_backups(context).filter(pk__in=_ids(ids)),
    (_delete(backups.DeleteBackup.rule, "This cannot be undone.", _delete_backup),),
    owners=_owners,
)


# ----- networking -----------------------------------------------------------------------------------------------------


def _of_network(service: Callable[[Any], object]) -> Callable[[Task], object]:
    return lambda task: service(task.record)


FLOATING_IPS = Kind(
    "floating_ips",
    "floating IP",
    "floating IPs",
    lambda context, ids: routing.floating_ips_for(context).filter(pk__in=_ids(ids)),
    (
        _delete(
            "delete_floatingip",
            "The addresses may be given to other projects. Instances can no longer be reached at them.",
            lambda task: network_services.delete_floating_ip(task.record, with_forwardings=True),
            "Release",
        ),
    ),
    name_of=lambda record: str(record.address),
    owners=_owners,
)
NETWORKS = _of_project(
    "networks",
    "network",
    "networks",
    network.networks_for,
    _delete(
        "delete_network",
        "Their subnets are deleted with them. Networks in use are not deleted.",
        _of_network(network_services.delete_network),
    ),
)
ROUTERS = _of_project(
    "routers",
    "router",
    "routers",
    routing.routers_for,
    _delete(
        "delete_router",
        "Routers with interfaces are not deleted.",
        _of_network(network_services.delete_router),
    ),
)
SECURITY_GROUPS = _of_project(
    "security_groups",
    "security group",
    "security groups",
    network.security_groups_for,
    _delete(
        "delete_security_group",
        "Rules of other groups that refer to them are deleted, too. Groups in use are not deleted.",
        _of_network(network_services.delete_security_group),
    ),
)


# ----- images and key pairs -------------------------------------------------------------------------------------------


def _delete_image(task: Task) -> None:
    image_services.delete(task.context, task.id)


def _set_protected(*, protected: bool) -> Callable[[Task], object]:
    return lambda task: image_services.update(task.context, task.id, {"protected": protected})


def _audiences(context: RequestContext) -> Sequence[tuple[str, str]]:
    return [
        (value, label)
        for value, label in AUDIENCES.items()
        if value not in BECOMING or policy.allows(context, BECOMING[value][0])
    ]


def _check_audience(text: str) -> None:
    if text not in AUDIENCES:
        raise InvalidInputError("Choose one of the projects.")


def _set_visibility(task: Task) -> None:
    image_services.update(task.context, task.id, {"visibility": task.arguments[VISIBILITY]})


_visibility = Argument(
    VISIBILITY,
    "Visible to",
    "",
    _check_audience,
    max(map(len, AUDIENCES)),
    lambda: Image.Visibility.PRIVATE.value,
    choices=_audiences,
)


def _key_pairs(context: RequestContext, ids: Sequence[str]) -> Iterable[KeyPair]:
    return [pair for pair in compute.key_pairs_for(context) if str(pair.pk) in ids]


IMAGES = Kind(
    "images",
    "image",
    "images",
    lambda context, ids: images.images_by_id(context, _ids(ids)),
    (
        BatchAction(
            "protect",
            "Protect",
            "shield-lock",
            "modify_image",
            "They cannot be deleted until the protection is removed.",
            _set_protected(protected=True),
            possible=lambda record: not record.protected,
        ),
        BatchAction(
            "unprotect",
            "Remove protection",
            "shield-slash",
            "modify_image",
            "They can be deleted again.",
            _set_protected(protected=False),
            possible=lambda record: record.protected,
        ),
        BatchAction(
            "visibility",
            "Change visibility",
            "eye",
            "modify_image",
            "Projects that no longer see an image cannot launch from it. Running instances keep their disks.",
            _set_visibility,
            argument=_visibility,
        ),
        replace(
            _delete(
                "delete_image",
                "New instances can no longer be launched from them. Running instances keep their disks.",
                _delete_image,
            ),
            possible=lambda record: not record.protected,
        ),
    ),
)
KEY_PAIRS = Kind(
    "key_pairs",
    "key pair",
    "key pairs",
    _key_pairs,
    (
        _delete(
            "os_compute_api:os-keypairs:delete",
            "They are no longer offered at launch. Existing instances keep the keys.",
            lambda task: delete_key_pair(task.context, task.record.name),
        ),
    ),
)
KINDS = {
    kind.name: kind
    for kind in (
        *(
            INSTANCES,
            SERVERS,
            VOLUMES,
            SNAPSHOTS,
            BACKUPS,
            FLOATING_IPS,
            NETWORKS,
            ROUTERS,
            SECURITY_GROUPS,
            IMAGES,
            KEY_PAIRS,
        ),
    )
}
"""Name of a kind → its declaration; the name is that of its list in the dashboard."""


def action_named(kind: str, name: str) -> tuple[Kind, BatchAction] | None:
    """Return the declarations of a kind and its action; None if there is no such action."""
    found = KINDS.get(kind)
    action = found.action(name) if found else None
    return (found, action) if found and action else None
