"""Unshelving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.common.microversions import Version
from portal.api.common.validation import Schema
from portal.api.compute.server_actions.registry import NOTHING, accepted, with_body
from portal.api.compute.servers.fields import NAME
from provisioning.compute.actions.unshelve import Destination, unshelve

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

TO_A_ZONE: Version = (2, 77)
TO_A_HOST: Version = (2, 91)
_ZONE: Schema = {"type": ["string", "null"], "maxLength": 255, "pattern": r"^[^\x00]*\Z"}
_HOST: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"}


def unshelve_schema(version: Version) -> Schema:
    """Return the schema of the value of ``unshelve``: a zone from 2.77 on; from 2.91 on also a host, or null to unpin
    the zone.
    """
    if version < TO_A_ZONE:
        return NOTHING
    if version < TO_A_HOST:
        return {
            "type": ["object", "null"],
            "properties": {"availability_zone": NAME},
            "required": ["availability_zone"],
            "additionalProperties": False,
        }
    return {
        "type": ["object", "null"],
        "properties": {"availability_zone": _ZONE, "host": _HOST},
        "additionalProperties": False,
    }


def _unshelve(view: ServerView, server_id: str, body: Any) -> Response:
    values = body if isinstance(body, dict) and view.microversion >= TO_A_ZONE else {}
    to = Destination(host=values.get("host", ""))
    if "availability_zone" in values:
        to = Destination(zone=values["availability_zone"], host=to.host)
    unshelve(view.context, server_id, to)
    return accepted()


ACTIONS = with_body("unshelve", unshelve_schema, _unshelve)
