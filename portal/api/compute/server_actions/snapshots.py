"""Images of servers: ``createImage`` and ``createBackup``."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.common import links
from portal.api.common.validation import Schema
from portal.api.compute.dialect.schemas import NOT_NEGATIVE
from portal.api.compute.server_actions.registry import with_body
from portal.api.compute.servers.fields import METADATA, NAME
from provisioning.compute.actions.snapshot import create_backup, create_image

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

NO_LOCATION = (2, 45)
"""From this version on the image's id is in the body, and no longer in the header ``Location``."""

IMAGE: Schema = {
    "type": "object",
    "properties": {"name": NAME, "metadata": METADATA},
    "required": ["name"],
    "additionalProperties": False,
}
BACKUP: Schema = {
    "type": "object",
    "properties": {
        "name": NAME,
        "backup_type": {"type": "string", "maxLength": 255, "pattern": r"^[^\x00]*\Z"},
        "rotation": NOT_NEGATIVE,
        "metadata": METADATA,
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
    where = f"{links.endpoint(view.request, 'image')}/v2/images/{image_id}"
    return Response(status=202, headers={"Location": where} if shown else {})


ACTIONS = {
    **with_body("snapshot", IMAGE, _create_image),
    **with_body("backup", BACKUP, _create_backup),
}
