"""Rebuild, and images of servers: ``createImage`` and ``createBackup``."""

import uuid
from typing import Any

from django.conf import settings
from rest_framework.response import Response

from portal.api.compute.dialect import BOOLEAN, NOT_NEGATIVE, boolean
from portal.api.compute.server_actions.lifecycle import guest_password
from portal.api.compute.server_actions.registry import with_body
from portal.api.compute.servers import schemas
from portal.api.compute.servers.shapes import ServerView
from portal.api.frame import Json, Schema, Values, Version, endpoint
from provisioning.common.values.unset import UNSET
from provisioning.compute.actions.rebuild import Rebuild, RebuildAction
from provisioning.compute.actions.snapshot import create_backup, create_image
from provisioning.compute.launch.request import InjectedFile
from provisioning.compute.services.instances import Changes

_CHANGES = {
    "name": "name",
    "description": "description",
    "hostname": "hostname",
    "accessIPv4": "access_ip_v4",
    "accessIPv6": "access_ip_v6",
    "OS-DCF:diskConfig": "disk_config",
}
"""Field of the API → field of the service, for fields that only change the records."""


def rebuild_schema(version: Version) -> Schema:
    """Return the schema of the value of ``rebuild``."""
    properties: Schema = {
        "imageRef": schemas.UUID,
        "name": schemas.NAME,
        "adminPass": {"type": "string", "maxLength": 255},
        "metadata": schemas.METADATA,
        "preserve_ephemeral": BOOLEAN,
        "OS-DCF:diskConfig": schemas.DISK_CONFIG,
        "accessIPv4": schemas.IPV4,
        "accessIPv6": schemas.IPV6,
    }
    late: dict[Version, Schema] = {
        (2, 19): {"description": schemas.DESCRIPTION},
        (2, 54): {"key_name": {"oneOf": [schemas.NAMED, {"type": "null"}]}},
        (2, 57): {"user_data": schemas.USER_DATA},
        (2, 63): {"trusted_image_certificates": schemas.CERTIFICATES},
        (2, 90): {"hostname": schemas.LABEL},
        (2, 94): {"hostname": schemas.FQDN},
    }
    for since, fields in late.items():
        if version >= since:
            properties |= fields
    if version < (2, 57):
        properties["personality"] = schemas.PERSONALITY
    return {"type": "object", "properties": properties, "required": ["imageRef"], "additionalProperties": False}


def _request(body: Json, password: str | None, version: Version) -> Rebuild:
    changes: Values = {column: body[field] for field, column in _CHANGES.items() if field in body}
    return Rebuild(
        image_id=body["imageRef"],
        admin_password=password,
        changes=Changes(**changes),  # type: ignore[typeddict-item]
        metadata=body.get("metadata"),
        injected_files=[
            InjectedFile(path=file["path"], contents=file["contents"]) for file in body.get("personality", ())
        ],
        preserve_ephemeral=boolean(body.get("preserve_ephemeral", False)),
        key_name=body.get("key_name", UNSET),
        user_data=body.get("user_data", UNSET),
        trusted_certificates=body.get("trusted_image_certificates", UNSET),
        writes_volume=version >= (2, 93),
    )


def _rebuild(view: ServerView, server_id: str, body: Any) -> Response:
    """Answer with the server, and with the fields that only this response has."""
    password = guest_password(body)
    instance = RebuildAction.begin(view.context, server_id, _request(body, password, view.microversion))
    answer = view.changed(instance)
    server = answer["server"]
    if view.microversion >= (2, 54):
        server["key_name"] = instance.key_name
    if view.microversion >= (2, 57):
        server["user_data"] = instance.user_data
        server.pop("OS-EXT-SRV-ATTR:user_data", None)  # from 2.75 on it is in the body already
    if settings.ENABLE_INSTANCE_PASSWORD:
        server["adminPass"] = password
    return Response(answer, status=202, headers={"Location": f"{view.base}/servers/{instance.id}"})


_REBUILDS = with_body("rebuild", rebuild_schema, _rebuild)


NO_LOCATION = (2, 45)
"""From this version on the image's id is in the body, and no longer in the header ``Location``."""

IMAGE: Schema = {
    "type": "object",
    "properties": {"name": schemas.NAME, "metadata": schemas.METADATA},
    "required": ["name"],
    "additionalProperties": False,
}
BACKUP: Schema = {
    "type": "object",
    "properties": {
        "name": schemas.NAME,
        "backup_type": {"type": "string", "maxLength": 255, "pattern": r"^[^\x00]*\Z"},
        "rotation": NOT_NEGATIVE,
        "metadata": schemas.METADATA,
    },
    "required": ["name", "backup_type", "rotation"],
    "additionalProperties": False,
}


def _create_image(view: ServerView, server_id: str, body: Any) -> Response:
    return _made(view, create_image(view.context, server_id, body["name"], body.get("metadata")))


def _create_backup(view: ServerView, server_id: str, body: Any) -> Response:
    rotation = int(body["rotation"])
    image_id = create_backup(view.context, server_id, body["name"], body["backup_type"], rotation, body.get("metadata"))
    return _made(view, image_id, shown=rotation > 0)


def _made(view: ServerView, image_id: uuid.UUID, *, shown: bool = True) -> Response:
    """Answer 202 with the image's address. With ``shown=False`` (a backup that the rotation deletes immediately) there
    is no ``Location``.
    """
    if view.microversion >= NO_LOCATION:
        return Response({"image_id": str(image_id)}, status=202)
    where = f"{endpoint(view.request, 'image')}/v2/images/{image_id}"
    return Response(status=202, headers={"Location": where} if shown else {})


_IMAGES = {
    **with_body("snapshot", IMAGE, _create_image),
    **with_body("backup", BACKUP, _create_backup),
}


ACTIONS = {**_REBUILDS, **_IMAGES}
