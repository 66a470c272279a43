"""What a server request may look like (Compute API reference, "Create Server" and the actions)."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^(?! )[^\x00-\x1f\x7f]*(?<! )$"}
"""Printable, no space at either end."""
_TEXT_MAP: Schema = {
    "type": "object",
    "patternProperties": {r"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}
METADATA = _TEXT_MAP
_COUNT: Schema = {"type": ["integer", "string"], "pattern": "^[0-9]+$", "minimum": 1}
_BOOLEAN: Schema = {
    "enum": [True, False, "True", "true", "TRUE", "1", "on", "yes", "False", "false", "FALSE", "0", "off", "no", ""]
}
_UUID: Schema = {"type": "string", "format": "uuid"}

_NETWORK: Schema = {
    "type": "object",
    "properties": {
        "uuid": _UUID,
        "port": {"oneOf": [_UUID, {"type": "null"}]},
        "fixed_ip": {"oneOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]},
    },
    "additionalProperties": False,
}

_BLOCK_DEVICE: Schema = {
    "type": "object",
    "properties": {
        "uuid": {"type": "string", "minLength": 1, "maxLength": 255},
        "source_type": {"enum": ["volume", "image", "snapshot", "blank"]},
        "destination_type": {"enum": ["local", "volume"]},
        "boot_index": {"type": ["integer", "string", "null"]},
        "delete_on_termination": _BOOLEAN,
        "volume_size": {"type": ["integer", "string"]},
        "guest_format": {"type": "string", "maxLength": 255},
        "device_name": {"type": "string", "minLength": 1, "maxLength": 255},
        "device_type": {"type": "string", "maxLength": 255},
        "disk_bus": {"type": "string", "maxLength": 255},
        "volume_type": {"type": ["string", "null"], "maxLength": 255},
        "tag": {"type": "string", "minLength": 1, "maxLength": 60},
    },
    "additionalProperties": False,
}


def create(microversion: tuple[int, int]) -> Schema:
    """Return the schema of ``POST /servers`` as it stands at ``microversion``."""
    properties: Schema = {
        "name": NAME,
        "imageRef": {"type": "string"},
        "flavorRef": {"type": ["string", "integer"], "minLength": 1},
        "adminPass": {"type": "string"},
        "metadata": METADATA,
        "networks": {"type": "array", "items": _NETWORK},
        "OS-DCF:diskConfig": {"enum": ["AUTO", "MANUAL"]},
        "accessIPv4": {"type": "string", "format": "ipv4"},
        "accessIPv6": {"type": "string", "format": "ipv6"},
        "key_name": {"type": "string", "minLength": 1, "maxLength": 255},
        "availability_zone": {"type": "string", "minLength": 1, "maxLength": 255},
        "config_drive": _BOOLEAN,
        "min_count": _COUNT,
        "max_count": _COUNT,
        "return_reservation_id": _BOOLEAN,
        "security_groups": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 255}},
                "additionalProperties": False,
            },
        },
        "user_data": {"type": ["string", "null"], "format": "base64", "maxLength": 65535},
        "block_device_mapping_v2": {"type": "array", "items": _BLOCK_DEVICE},
    }
    if microversion >= (2, 19):
        properties["description"] = {"type": ["string", "null"], "maxLength": 255}
    if microversion >= (2, 37):
        properties["networks"] = {
            "oneOf": [{"type": "array", "items": _NETWORK}, {"type": "string", "enum": ["none", "auto"]}]
        }
    if microversion >= (2, 52):
        properties["tags"] = {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[^,/]*$"},
            "maxItems": 50,
        }
    required = ["name", "flavorRef"] + (["networks"] if microversion >= (2, 37) else [])
    hints: Schema = {"type": "object", "additionalProperties": True}
    return {
        "type": "object",
        "properties": {
            "server": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            },
            "os:scheduler_hints": hints,
            "OS-SCH-HNT:scheduler_hints": hints,
        },
        "required": ["server"],
        "additionalProperties": False,
    }


def update(microversion: tuple[int, int]) -> Schema:
    """Return the schema of ``PUT /servers/{id}``."""
    properties: Schema = {
        "name": NAME,
        "accessIPv4": {"type": "string"},
        "accessIPv6": {"type": "string"},
        "OS-DCF:diskConfig": {"enum": ["AUTO", "MANUAL"]},
    }
    if microversion >= (2, 19):
        properties["description"] = {"type": ["string", "null"], "maxLength": 255}
    return {
        "type": "object",
        "properties": {
            "server": {"type": "object", "properties": properties, "additionalProperties": False, "minProperties": 1}
        },
        "required": ["server"],
        "additionalProperties": False,
    }


def _action(name: str, body: Schema) -> Schema:
    return {"type": "object", "properties": {name: body}, "required": [name], "additionalProperties": False}


GET_CONSOLE_OUTPUT = _action(
    "os-getConsoleOutput",
    {
        "type": "object",
        "properties": {"length": {"type": ["integer", "string", "null"], "pattern": "^-?[0-9]{1,9}$", "minimum": -1}},
        "additionalProperties": False,
    },
)
REBOOT = _action(
    "reboot",
    {
        "type": "object",
        "properties": {"type": {"enum": ["SOFT", "HARD", "soft", "hard", "Soft", "Hard"]}},
        "required": ["type"],
        "additionalProperties": False,
    },
)
START = _action("os-start", {})
STOP = _action("os-stop", {})
FORCE_DELETE = _action("forceDelete", {})
METADATA_BODY: Schema = {
    "type": "object",
    "properties": {"metadata": METADATA},
    "required": ["metadata"],
    "additionalProperties": False,
}
META_BODY: Schema = {
    "type": "object",
    "properties": {"meta": METADATA | {"minProperties": 1, "maxProperties": 1}},
    "required": ["meta"],
    "additionalProperties": False,
}
