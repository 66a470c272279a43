"""Rescue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from rest_framework.response import Response

from portal.api.compute.server_actions.registry import with_body
from portal.api.compute.servers.fields import UUID
from provisioning.compute.actions.rescue import rescue
from provisioning.compute.records.passwords import generate_password

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

BOOTS_FROM_VOLUME = (2, 87)
"""From this version on a server that boots from a volume can be rescued."""
RESCUE = {
    "type": ["object", "null"],
    "properties": {"adminPass": {"type": "string", "maxLength": 255}, "rescue_image_ref": UUID},
    "additionalProperties": False,
}


def guest_password(body: dict[str, Any]) -> str | None:
    """Return the guest password in the body. Without one, return a generated password, or None if
    ``ENABLE_INSTANCE_PASSWORD`` is off.
    """
    specified = body.get("adminPass")
    if specified is None and settings.ENABLE_INSTANCE_PASSWORD:
        return generate_password()
    return specified


def _rescue(view: ServerView, server_id: str, body: Any) -> Response:
    values = body or {}
    password = guest_password(values)
    rescue(
        view.context,
        server_id,
        image_id=values.get("rescue_image_ref"),
        password=password,
        boots_from_volume=view.microversion >= BOOTS_FROM_VOLUME,
    )
    return Response({"adminPass": password} if settings.ENABLE_INSTANCE_PASSWORD else {})


ACTIONS = with_body("rescue", RESCUE, _rescue)
