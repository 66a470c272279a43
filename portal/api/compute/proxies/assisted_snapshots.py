"""Assisted volume snapshots. Storage hosts take snapshots without assistance, so requests are refused."""

from typing import Any

import orjson
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.schemas import Schema, Version, last
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


class AssistedSnapshotsView(ComputeView):
    """``POST /os-assisted-volume-snapshots``."""

    rules = {"POST": "os_compute_api:os-assisted-volume-snapshots:create"}
    schemas = {"POST": creation}

    def post(self, request: Request) -> Response:
        """Refused: no pool needs assistance."""
        refuse_assisted_snapshot(self.checked_body()["snapshot"]["volume_id"])


class AssistedSnapshotView(ComputeView):
    """``DELETE /os-assisted-volume-snapshots/{id}``."""

    rules = {"DELETE": "os_compute_api:os-assisted-volume-snapshots:delete"}
    queries = {"DELETE": deletion}

    def delete(self, request: Request, snapshot_id: str) -> Response:
        """Refused: no pool needs assistance."""
        text = last(self.checked_query(), "delete_info")
        try:
            info: Any = orjson.loads(text or "")
        except orjson.JSONDecodeError as error:
            raise InvalidInputError("delete_info must be an object in JSON.", field="delete_info") from error
        if not isinstance(info, dict) or not isinstance(info.get("volume_id"), str):
            raise InvalidInputError("delete_info must name the volume_id.", field="delete_info")
        refuse_assisted_snapshot(info["volume_id"])
