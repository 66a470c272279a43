"""``/servers/{id}/os-volume_attachments``: the volumes of a server (Compute API reference, "Servers with volume
attachments").
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from portal.api.compute.dialect.base import WITH_OFFSET, ComputeView
from portal.api.compute.dialect.schemas import BOOLEAN, COUNT, SHARED_VOLUMES, Schema, Version, body, boolean, query
from portal.api.compute.servers.fields import DEVICE, TAG, UUID
from portal.api.frame.parts import Call, at_version, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.actions.swap_volume import swap_volume
from provisioning.compute.actions.volumes import (
    VolumeToAttach,
    attach_volume,
    detach_volume,
    find_device,
    keep_or_delete,
)
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import BlockDevice
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.compute.states import VmState
from provisioning.identity import policy

ON_SHELF: Version = (2, 20)
"""From this version on the volumes of a shelved server can be changed."""
TAGS_SHOWN: Version = (2, 70)
KEPT_SHOWN: Version = (2, 79)
IDS_SHOWN: Version = (2, 89)
KEPT_CHANGED: Version = (2, 85)


def listing(version: Version) -> Schema:
    return query(version, {"limit": COUNT, "offset": COUNT})


def create(version: Version) -> Schema:
    """Return the schema of ``POST``: the volume to attach, a tag from 2.49 on, and ``delete_on_termination`` from 2.79
    on.
    """
    properties: Schema = {"volumeId": UUID, "device": {"oneOf": [DEVICE, {"type": "null"}]}}
    if version >= (2, 49):
        properties["tag"] = TAG
    if version >= KEPT_SHOWN:
        properties["delete_on_termination"] = BOOLEAN
    return body("volumeAttachment", properties, ("volumeId",))


def update(version: Version) -> Schema:
    """Return the schema of ``PUT``: the new volume, and ``delete_on_termination`` from 2.85 on."""
    properties: Schema = {"volumeId": UUID}
    if version >= KEPT_CHANGED:
        properties |= {
            "device": {"oneOf": [DEVICE, {"type": "null"}]},
            "tag": TAG,
            "delete_on_termination": BOOLEAN,
            "serverId": UUID,
            "id": UUID,
        }
    return body("volumeAttachment", properties, ("volumeId",))


def _refuse_on_shelf(context: RequestContext, server_id: str, action: str, version: Version) -> None:
    """Raise InstanceBusyError if the server is shelved and the microversion does not allow changes of its volumes.
    Raises NotFoundError for an unknown server.
    """
    if version < ON_SHELF:
        instance = selectors.instance_for(context, server_id)
        if instance.vm_state in {VmState.SHELVED, VmState.SHELVED_OFFLOADED}:
            raise InstanceBusyError(action, instance.id, instance.vm_state, instance.task_state)


def _shape(view: ComputeView, device: BlockDevice, *, new: bool = False) -> dict[str, Any]:
    """Return the attachment of a volume. From 2.89 on it has ``attachment_id`` and ``bdm_uuid`` instead of ``id``,
    except if ``new``: the response to ``POST`` has ``id`` at every microversion.
    """
    version = view.microversion
    shape: dict[str, Any] = {
        "id": str(device.volume_id),
        "volumeId": str(device.volume_id),
        "serverId": str(device.instance_id),
        "device": device.device_name or None,
    }
    if version >= TAGS_SHOWN:
        shape["tag"] = device.tag or None
    if version >= KEPT_SHOWN:
        shape["delete_on_termination"] = device.delete_on_termination
    if version >= IDS_SHOWN and not new:
        del shape["id"]
        shape["attachment_id"] = str(device.attachment_id) if device.attachment_id else None
        shape["bdm_uuid"] = str(device.id)
    return shape


def _list(context: RequestContext, server_id: str, *, part: slice) -> Sequence[BlockDevice]:
    instance = selectors.instance_for(context, server_id)
    return volumes_shown([instance.id]).get(instance.id, [])[part]


def _attach(context: RequestContext, server_id: str, requested: dict[str, Any], *, version: Version) -> BlockDevice:
    _refuse_on_shelf(context, server_id, "attach_volume", version)
    return attach_volume(
        context,
        server_id,
        VolumeToAttach(
            volume_id=requested["volumeId"],
            device=requested.get("device") or "",
            tag=requested.get("tag", ""),
            delete_on_termination=boolean(requested.get("delete_on_termination", False)),
            shared=version >= SHARED_VOLUMES,
        ),
    )


def _show(context: RequestContext, server_id: str, volume_id: str) -> BlockDevice:
    return find_device(selectors.instance_for(context, server_id), volume_id)


def _change(
    context: RequestContext, server_id: str, volume_id: str, requested: dict[str, Any], *, version: Version
) -> None:
    if requested["volumeId"] == volume_id and version >= KEPT_CHANGED:
        _keep(context, server_id, volume_id, requested)
    else:
        policy.enforce(context, "os_compute_api:os-volumes-attachments:swap")
        swap_volume(context, server_id, volume_id, requested["volumeId"])


def _keep(context: RequestContext, server_id: str, volume_id: str, requested: dict[str, Any]) -> None:
    device = _show(context, server_id, volume_id)
    now = {
        "device": device.device_name,
        "tag": device.tag or None,
        "serverId": str(device.instance_id),
        "id": volume_id,
    }
    for name, value in now.items():
        if name in requested and requested[name] != value:
            raise InvalidInputError(f"The {name} cannot be changed.", field=name)
    if "delete_on_termination" in requested:
        kept = boolean(requested["delete_on_termination"])
        keep_or_delete(context, server_id, volume_id, delete_on_termination=kept)


def _detach(context: RequestContext, server_id: str, volume_id: str, *, version: Version) -> None:
    _refuse_on_shelf(context, server_id, "detach_volume", version)
    detach_volume(context, server_id, volume_id)


_RULE = "os_compute_api:os-volumes-attachments:"
PARTS = parts(
    ComputeView,
    "servers/{server_id}/os-volume_attachments",
    {
        "GET": Call(
            _list,
            f"{_RULE}index",
            "List the attachments in order.",
            name="volumeAttachments",
            shape=lambda view, devices: [_shape(view, device) for device in devices],
            query=listing,
            more=lambda view: {"part": WITH_OFFSET.read_slice(view.request)},
        ),
        "POST": Call(
            _attach,
            f"{_RULE}create",
            "Attach a volume; the response shows the attachment while hosts are still working on it.",
            name="volumeAttachment",
            shape=partial(_shape, new=True),
            body=create,
            more=at_version,
        ),
        "GET /{volume_id}": Call(_show, f"{_RULE}show", name="volumeAttachment", shape=_shape),
        "PUT /{volume_id}": Call(
            _change,
            f"{_RULE}update",
            "Swap the volume for another, or from 2.85 on update ``delete_on_termination``.",
            body=update,
            more=at_version,
            status=202,
        ),
        "DELETE /{volume_id}": Call(
            _detach,
            f"{_RULE}delete",
            "Detach a volume; the attachment is removed when the guest has released it.",
            more=at_version,
            status=202,
        ),
    },
)
