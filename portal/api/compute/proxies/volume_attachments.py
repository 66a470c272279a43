"""``/servers/{id}/os-volume_attachments``: there is no volume service, so nothing is attached and nothing can be."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.schemas import BOOLEAN, COUNT, Schema, Version, body, query
from portal.api.compute.servers.fields import DEVICE, TAG, UUID
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors


def listing(version: Version) -> Schema:
    return query(version, {"limit": COUNT, "offset": COUNT})


def create(version: Version) -> Schema:
    """``POST``: what to attach, and from 2.49 and 2.79 on how."""
    properties: Schema = {"volumeId": UUID, "device": {"oneOf": [DEVICE, {"type": "null"}]}}
    if version >= (2, 49):
        properties["tag"] = TAG
    if version >= (2, 79):
        properties["delete_on_termination"] = BOOLEAN
    return body("volumeAttachment", properties, ("volumeId",))


def update(version: Version) -> Schema:
    """``PUT``: another volume, and from 2.85 on what becomes of it with the server."""
    properties: Schema = {"volumeId": UUID}
    if version >= (2, 85):
        properties |= {
            "device": {"oneOf": [DEVICE, {"type": "null"}]},
            "tag": TAG,
            "delete_on_termination": BOOLEAN,
            "serverId": UUID,
            "id": UUID,
        }
    return body("volumeAttachment", properties, ("volumeId",))


class VolumeAttachmentsView(ComputeView):
    """The volumes of a server."""

    rules = {
        "GET": "os_compute_api:os-volumes-attachments:index",
        "POST": "os_compute_api:os-volumes-attachments:create",
    }
    schemas: ClassVar = {"POST": create}
    queries: ClassVar = {"GET": listing}

    def get(self, request: Request, server_id: str) -> Response:
        """The volumes of an existing server: none."""
        self.checked_query()
        selectors.instance_for(self.context, server_id)
        return Response({"volumeAttachments": []})

    def post(self, request: Request, server_id: str) -> Response:
        """Answer as for a volume that does not exist."""
        wanted = self.checked_body()["volumeAttachment"]["volumeId"]
        selectors.instance_for(self.context, server_id)
        raise NotFoundError(f"Volume {wanted} could not be found.", field="volumeId")


class VolumeAttachmentView(ComputeView):
    """One volume of a server: there is none of any id."""

    rules = {
        "GET": "os_compute_api:os-volumes-attachments:show",
        "PUT": "os_compute_api:os-volumes-attachments:update",
        "DELETE": "os_compute_api:os-volumes-attachments:delete",
    }
    schemas: ClassVar = {"PUT": update}

    def get(self, request: Request, server_id: str, volume_id: str) -> Response:
        """Answer 404 in the reference's words."""
        raise self._not_attached(server_id, volume_id)

    def put(self, request: Request, server_id: str, volume_id: str) -> Response:
        """Check the body, and answer 404."""
        self.checked_body()
        raise self._not_attached(server_id, volume_id)

    def delete(self, request: Request, server_id: str, volume_id: str) -> Response:
        """Answer 404."""
        raise self._not_attached(server_id, volume_id)

    def _not_attached(self, server_id: str, volume_id: str) -> NotFoundError:
        instance = selectors.instance_for(self.context, server_id)
        return NotFoundError(f"Instance {instance.id} is not attached to volume {volume_id[:64]}")
