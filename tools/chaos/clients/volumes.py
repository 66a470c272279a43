"""The operations of clients on volumes, snapshots and backups, and the deletion of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tools.chaos.clients.client import Answer, Client
from tools.chaos.clients.world import World
from tools.chaos.plan import Operation

VOLUME = "/volume/v3"
COMPUTE = "/compute/v2.1"
MOST_VOLUMES, MOST_SNAPSHOTS, MOST_BACKUPS = 8, 5, 3
"""Maximum numbers of volumes, snapshots and backups of a project: at the limit, an operation deletes one instead of
creating one.
"""
SHARED = "chaos-shared"
"""The volume type whose volumes can be attached to several servers."""


def _create(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Create a volume: empty, from an image, from a snapshot, from another volume, or of the multiattach type."""
    found = _volumes(client)
    if len(found) >= MOST_VOLUMES:
        return _delete(world, client, operation, server)
    body: dict[str, Any] = {"size": 1 + operation.number % 2, "name": f"chaos-{operation.number}"}
    snapshot, volume = _pick(_listed(client, "snapshots"), operation), _pick(found, operation)
    kind = operation.number % 7
    if kind == 1:
        body["imageRef"] = world.image
    elif kind in (2, 3) and snapshot:
        body |= {"snapshot_id": snapshot["id"], "size": snapshot["size"]}
    elif kind == 4 and volume:
        body |= {"source_volid": volume["id"], "size": volume["size"]}
    elif kind == 5:
        body["volume_type"] = SHARED
    return client.call("POST", f"{VOLUME}/volumes", {"volume": body})


def _attach(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Attach a volume to the server: an available volume or, in every fourth operation, any volume."""
    found = _volumes(client)
    free = [each for each in found if each["status"] == "available"]
    volume = _pick(found if operation.number % 4 == 0 else free, operation)
    if volume is None:
        return _create(world, client, operation, server)
    body = {"volumeAttachment": {"volumeId": volume["id"]}}
    return client.call("POST", f"{COMPUTE}/servers/{server}/os-volume_attachments", body)


def _detach(world: World, client: Client, operation: Operation, server: str) -> Answer:
    path = f"{COMPUTE}/servers/{server}/os-volume_attachments"
    answer = client.call("GET", path)
    if not answer.accepted or not answer.body["volumeAttachments"]:
        return answer
    volume = _pick(answer.body["volumeAttachments"], operation)["volumeId"]
    return client.call("DELETE", f"{path}/{volume}")


def _swap(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Replace one of the server's volumes with the largest available volume."""
    path = f"{COMPUTE}/servers/{server}/os-volume_attachments"
    answer = client.call("GET", path)
    free = [each for each in _volumes(client) if each["status"] == "available"]
    if not answer.accepted or not answer.body["volumeAttachments"] or not free:
        return answer
    old = _pick(answer.body["volumeAttachments"], operation)["volumeId"]
    body = {"volumeAttachment": {"volumeId": max(free, key=lambda each: int(each["size"]))["id"]}}
    return world.operator.call("PUT", f"{path}/{old}", body)


def _extend(world: World, client: Client, operation: Operation, server: str) -> Answer:
    volume = _pick(_volumes(client), operation)
    if volume is None:
        return _create(world, client, operation, server)
    body = {"os-extend": {"new_size": volume["size"] + 1}}
    return client.call("POST", f"{VOLUME}/volumes/{volume['id']}/action", body)


def _snapshot(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Create a snapshot of a volume, or delete a snapshot."""
    found, volume = _listed(client, "snapshots"), _pick(_volumes(client), operation)
    if found and (len(found) >= MOST_SNAPSHOTS or operation.number % 4 == 0):
        return client.call("DELETE", f"{VOLUME}/snapshots/{_pick(found, operation)['id']}")
    if volume is None:
        return _create(world, client, operation, server)
    return client.call("POST", f"{VOLUME}/snapshots", {"snapshot": {"volume_id": volume["id"], "force": True}})


def _revert(world: World, client: Client, operation: Operation, server: str) -> Answer:
    snapshot = _pick(_listed(client, "snapshots"), operation)
    if snapshot is None:
        return _snapshot(world, client, operation, server)
    newest = [each for each in _listed(client, "snapshots") if each["volume_id"] == snapshot["volume_id"]]
    if newest:
        snapshot = max(newest, key=lambda each: str(each["created_at"]))
    path = f"{VOLUME}/volumes/{snapshot['volume_id']}/action"
    return client.call("POST", path, {"revert": {"snapshot_id": snapshot["id"]}})


def _backup(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Create a full or incremental backup of a volume, restore a backup, or delete one."""
    found, volume = _listed(client, "backups"), _pick(_volumes(client), operation)
    backup = _pick(found, operation)
    if backup and (len(found) >= MOST_BACKUPS or operation.number % 5 == 0):
        return client.call("DELETE", f"{VOLUME}/backups/{backup['id']}")
    if backup and operation.number % 5 == 1:
        return client.call("POST", f"{VOLUME}/backups/{backup['id']}/restore", {"restore": {}})
    if volume is None:
        return _create(world, client, operation, server)
    body = {"volume_id": volume["id"], "force": True, "incremental": operation.number % 2 == 0}
    return client.call("POST", f"{VOLUME}/backups", {"backup": body})


def _delete(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Delete a volume, in two of three cases with its snapshots. The cloud refuses the request if the
    volume is in use.
    """
    volume = _pick(_volumes(client), operation)
    if volume is None:
        return client.call("GET", f"{VOLUME}/volumes")
    cascade = "?cascade=true" if operation.number % 3 else ""
    return client.call("DELETE", f"{VOLUME}/volumes/{volume['id']}{cascade}")


def _migrate(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Move a volume to another pool, as an operator; its guest keeps running."""
    volume = _pick(_volumes(client), operation)
    answer = world.operator.call("GET", f"{VOLUME}/scheduler-stats/get_pools")
    if volume is None or not answer.accepted or not answer.body["pools"]:
        return answer
    body = {"os-migrate_volume": {"host": _pick(answer.body["pools"], operation)["name"]}}
    return world.operator.call("POST", f"{VOLUME}/volumes/{volume['id']}/action", body)


SEND: Mapping[str, Callable[[World, Client, Operation, str], Answer]] = {
    "volume": _create,
    "attach_volume": _attach,
    "detach_volume": _detach,
    "swap_volume": _swap,
    "extend_volume": _extend,
    "snapshot_volume": _snapshot,
    "revert_volume": _revert,
    "backup_volume": _backup,
    "delete_volume": _delete,
    "migrate_volume": _migrate,
}


def boot_disks(world: World, operation: Operation) -> list[dict[str, Any]]:
    """Return the block device mappings of a server that boots from a new volume of the image and has an empty second
    volume.
    """
    goes = operation.number % 2 == 0
    new = {"destination_type": "volume", "volume_size": 1, "delete_on_termination": goes}
    root = {"boot_index": 0, "source_type": "image", "uuid": world.image, **new}
    return [root, {"boot_index": -1, "source_type": "blank", **new}]


def prepare(operator: Client) -> Answer:
    """Create the volume type whose volumes can be attached to several servers."""
    body = {"name": SHARED, "extra_specs": {"multiattach": "<is> True"}}
    return operator.call("POST", f"{VOLUME}/types", {"volume_type": body})


def delete_all(world: World) -> bool:
    """Delete the backups and volumes of the projects; their servers are deleted before. Return whether a request was
    accepted. A backup with incremental backups can only be deleted after them, so call this until it is False.
    """
    accepted = False
    for client in world.clients:
        for backup in reversed(_listed(client, "backups?sort=created_at:asc")):
            accepted |= client.call("DELETE", f"{VOLUME}/backups/{backup['id']}").accepted
        for volume in _volumes(client):
            accepted |= client.call("DELETE", f"{VOLUME}/volumes/{volume['id']}?cascade=true").accepted
    return accepted


def _volumes(client: Client) -> list[Any]:
    return _listed(client, "volumes/detail")


def _listed(client: Client, what: str) -> list[Any]:
    """Return the rows of a list, or nothing if the request fails."""
    answer = client.call("GET", f"{VOLUME}/{what}")
    return list(next(iter(answer.body.values()))) if answer.accepted else []


def _pick(rows: list[Any], operation: Operation) -> Any:
    return rows[operation.number % len(rows)] if rows else None
