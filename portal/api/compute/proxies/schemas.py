"""What requests to the proxies of other services may look like."""

from __future__ import annotations

from portal.api.compute.schemas import COUNT, TEXT, Schema, Version

_LISTED: Schema = {"type": "array", "items": TEXT}
_COUNTED: Schema = {"type": "array", "items": COUNT}


def images(version: Version) -> Schema:
    """The query of ``GET /images``: ``property-…`` filters by a property; unknown ones are not looked at."""
    names = ("name", "status", "server", "type", "changes-since", "marker")
    return {
        "type": "object",
        "properties": dict.fromkeys(names, _LISTED) | dict.fromkeys(("minRam", "minDisk", "limit"), _COUNTED),
        "patternProperties": {"^property-": _LISTED},
        "additionalProperties": True,
    }


def limited(version: Version) -> Schema:
    """The query of lists that have ``limit`` and ``offset``."""
    return {
        "type": "object",
        "properties": dict.fromkeys(("limit", "offset"), _COUNTED),
        "additionalProperties": True,
    }


def assisted_snapshot(version: Version) -> Schema:
    """``POST /os-assisted-volume-snapshots``."""
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


def assisted_deletion(version: Version) -> Schema:
    """The query of ``DELETE /os-assisted-volume-snapshots/{id}``."""
    return {
        "type": "object",
        "properties": {"delete_info": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": version < (2, 75),
    }
