"""Assisted volume snapshots. Storage hosts take snapshots without assistance, so requests are refused."""

from typing import Any

import orjson

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.schemas import Schema, Version, last
from portal.api.frame.parts import Call, parts
from provisioning.common.errors import InvalidInputError
from provisioning.compute.services.assisted_snapshots import refuse_assisted_snapshot


def creation(version: Version) -> Schema:
    """Return the schema of ``POST /os-assisted-volume-snapshots``."""
    text: Schema = {"type": "string", "minLength": 1}
    info: Schema = {
        "type": "object",
        "properties": {
            "snapshot_id": {"type": "string", "minLength": 1, "maxLength": 255},
            "type": {"enum": ["qcow2"]},
            "new_file": {"type": "string", "minLength": 1, "maxLength": 255},
            "id": {"type": "string", "minLength": 1, "maxLength": 255},
        },
        "required": ["snapshot_id", "type", "new_file"],
        "additionalProperties": False,
    }
    snapshot: Schema = {
        "type": "object",
        "properties": {"volume_id": text, "create_info": info},
        "required": ["volume_id", "create_info"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"snapshot": snapshot},
        "required": ["snapshot"],
        "additionalProperties": False,
    }


def deletion(version: Version) -> Schema:
    """Return the schema of the query of ``DELETE /os-assisted-volume-snapshots/{id}``."""
    return {
        "type": "object",
        "properties": {"delete_info": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": version < (2, 75),
    }


def _volume(view: ComputeView) -> dict[str, str]:
    text = last(view.checked_query(), "delete_info")
    try:
        info: Any = orjson.loads(text or "")
    except orjson.JSONDecodeError as error:
        raise InvalidInputError("delete_info must be an object in JSON.", field="delete_info") from error
    if not isinstance(info, dict) or not isinstance(info.get("volume_id"), str):
        raise InvalidInputError("delete_info must name the volume_id.", field="delete_info")
    return {"volume_id": info["volume_id"]}


PARTS = parts(
    ComputeView,
    "os-assisted-volume-snapshots",
    {
        "POST": Call(
            lambda context, snapshot: refuse_assisted_snapshot(snapshot["volume_id"]),
            "os_compute_api:os-assisted-volume-snapshots:create",
            "Refused: no pool needs assistance.",
            status=201,
            body=creation,
        ),
        "DELETE /{snapshot_id}": Call(
            lambda context, snapshot_id, *, volume_id: refuse_assisted_snapshot(volume_id),
            "os_compute_api:os-assisted-volume-snapshots:delete",
            "Refused: no pool needs assistance.",
            query=deletion,
            more=_volume,
        ),
    },
)
