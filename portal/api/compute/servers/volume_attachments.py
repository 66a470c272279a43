"""``/servers/{id}/os-volume_attachments``: the volumes of a server (Compute API reference, "Servers with volume
attachments").
"""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.paging import read_part
from portal.api.compute.base import ComputeView
from portal.api.compute.schemas import BOOLEAN, COUNT, SHARED_VOLUMES, Schema, Version, body, boolean, query
from portal.api.compute.servers.fields import DEVICE, TAG, UUID
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
from provisioning.compute.models import BlockDevice, Instance
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


class AttachmentShapes(ComputeView):
    """Base of the views of all attachments and of one attachment."""

    def refuse_on_shelf(self, server_id: str, action: str) -> None:
        """Raise InstanceBusyError if the server is shelved and the microversion does not allow changes of its volumes.
        Raises NotFoundError for an unknown server.
        """
        if self.microversion < ON_SHELF:
            instance = selectors.instance_for(self.context, server_id)
            if instance.vm_state in {VmState.SHELVED, VmState.SHELVED_OFFLOADED}:
                raise InstanceBusyError(action, instance.id, instance.vm_state, instance.task_state)

    def shape(self, instance: Instance, device: BlockDevice, *, new: bool = False) -> dict[str, Any]:
        """Return the attachment of a volume. From 2.89 on it has ``attachment_id`` and ``bdm_uuid`` instead of ``id``,
        except if ``new``: the response to ``POST`` has ``id`` at every microversion.
        """
        shape: dict[str, Any] = {
            "id": str(device.volume_id),
            "volumeId": str(device.volume_id),
            "serverId": str(instance.id),
            "device": device.device_name or None,
        }
        if self.microversion >= TAGS_SHOWN:
            shape["tag"] = device.tag or None
        if self.microversion >= KEPT_SHOWN:
            shape["delete_on_termination"] = device.delete_on_termination
        if self.microversion >= IDS_SHOWN and not new:
            del shape["id"]
            shape["attachment_id"] = str(device.attachment_id) if device.attachment_id else None
            shape["bdm_uuid"] = str(device.id)
        return shape


class VolumeAttachmentsView(AttachmentShapes):
    """``GET`` and ``POST``: the volumes of a server."""

    rules = {
        "GET": "os_compute_api:os-volumes-attachments:index",
        "POST": "os_compute_api:os-volumes-attachments:create",
    }
    schemas: ClassVar = {"POST": create}
    queries: ClassVar = {"GET": listing}

    def get(self, request: Request, server_id: str) -> Response:
        """List the attachments in order."""
        self.checked_query()
        instance = selectors.instance_for(self.context, server_id)
        shown = volumes_shown([instance.id]).get(instance.id, [])[read_part(request)]
        return Response({"volumeAttachments": [self.shape(instance, device) for device in shown]})

    def post(self, request: Request, server_id: str) -> Response:
        """Attach a volume; the response shows the attachment while hosts are still working on it."""
        self.refuse_on_shelf(server_id, "attach_volume")
        wanted = self.checked_body()["volumeAttachment"]
        device = attach_volume(
            self.context,
            server_id,
            VolumeToAttach(
                volume_id=wanted["volumeId"],
                device=wanted.get("device") or "",
                tag=wanted.get("tag", ""),
                delete_on_termination=boolean(wanted.get("delete_on_termination", False)),
                shared=self.microversion >= SHARED_VOLUMES,
            ),
        )
        return Response({"volumeAttachment": self.shape(device.instance, device, new=True)})


class VolumeAttachmentView(AttachmentShapes):
    """One volume of a server."""

    rules = {
        "GET": "os_compute_api:os-volumes-attachments:show",
        "PUT": "os_compute_api:os-volumes-attachments:update",
        "DELETE": "os_compute_api:os-volumes-attachments:delete",
    }
    schemas: ClassVar = {"PUT": update}

    def get(self, request: Request, server_id: str, volume_id: str) -> Response:
        instance = selectors.instance_for(self.context, server_id)
        return Response({"volumeAttachment": self.shape(instance, find_device(instance, volume_id))})

    def put(self, request: Request, server_id: str, volume_id: str) -> Response:
        """Swap the volume for another, or from 2.85 on update ``delete_on_termination``."""
        wanted = self.checked_body()["volumeAttachment"]
        if wanted["volumeId"] == volume_id and self.microversion >= KEPT_CHANGED:
            self._keep(server_id, volume_id, wanted)
        else:
            policy.enforce(self.context, "os_compute_api:os-volumes-attachments:swap")
            swap_volume(self.context, server_id, volume_id, wanted["volumeId"])
        return Response(status=202)

    def delete(self, request: Request, server_id: str, volume_id: str) -> Response:
        """Detach a volume; the attachment is removed when the guest has released it."""
        self.refuse_on_shelf(server_id, "detach_volume")
        detach_volume(self.context, server_id, volume_id)
        return Response(status=202)

    def _keep(self, server_id: str, volume_id: str, wanted: dict[str, Any]) -> None:
        instance = selectors.instance_for(self.context, server_id)
        device = find_device(instance, volume_id)
        now = {"device": device.device_name, "tag": device.tag or None, "serverId": str(instance.id), "id": volume_id}
        for name, value in now.items():
            if name in wanted and wanted[name] != value:
                raise InvalidInputError(f"The {name} cannot be changed.", field=name)
        if "delete_on_termination" in wanted:
            kept = boolean(wanted["delete_on_termination"])
            keep_or_delete(self.context, server_id, volume_id, delete_on_termination=kept)
