"""JSON schemas of requests that create and update servers (Compute API reference, "Servers")."""

from portal.api.compute.dialect import BOOLEAN, POSITIVE
from portal.api.frame import Schema, Version, body
from provisioning.common.values.numbers import MAX_INTEGER

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^(?! )[^\x00-\x1f\x7f]*(?<! )\Z"}
"""Printable, without leading or trailing spaces."""
METADATA: Schema = {
    "type": "object",
    "patternProperties": {r"^[a-zA-Z0-9-_:. ]{1,255}\Z": {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}
DESCRIPTION: Schema = {
    "type": ["string", "null"],
    "maxLength": 255,
    "pattern": r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*\Z",
}
UUID: Schema = {"type": "string", "format": "uuid"}
UUID_OR_NULL: Schema = {"oneOf": [UUID, {"type": "null"}]}
IPV4: Schema = {"type": "string", "format": "ipv4"}
IPV6: Schema = {"type": "string", "format": "ipv6"}
DISK_CONFIG: Schema = {"type": "string", "enum": ["AUTO", "MANUAL"]}
TAG: Schema = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": r"^[^,/]*\Z"}
TAGS: Schema = {"type": "array", "items": TAG, "maxItems": 50}
LABEL: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 63,
    "pattern": r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\Z",
}
FQDN: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*\Z",
}
PERSONALITY: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 4096},
            "contents": {"type": "string", "format": "base64"},
        },
        "required": ["path", "contents"],
        "additionalProperties": False,
    },
}
CERTIFICATES: Schema = {
    "type": ["array", "null"],
    "minItems": 1,
    "maxItems": 50,
    "uniqueItems": True,
    "items": {"type": "string", "minLength": 1, "maxLength": 255},
}
USER_DATA: Schema = {"type": ["string", "null"], "format": "base64", "maxLength": 65535}
SIZE: Schema = {"type": ["integer", "string"], "pattern": r"^[0-9]{1,10}\Z", "minimum": 1, "maximum": MAX_INTEGER}
SHORT: Schema = {"type": "string", "maxLength": 255}
NAMED: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
DEVICE: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._/-]*\Z"}
OLD_BOOLEAN: Schema = {"enum": [*BOOLEAN["enum"], ""]}
"""A boolean, or an empty text, which ``config_drive`` also accepts."""


_ONE_OR_MORE: Schema = {"oneOf": [UUID, {"type": "array", "items": UUID}]}
HINTS: Schema = {
    "type": "object",
    "properties": {
        "group": UUID,
        "different_host": _ONE_OR_MORE,
        "same_host": _ONE_OR_MORE,
        "query": {"type": ["string", "object", "array"]},
        "target_cell": NAMED,
        "different_cell": {"type": ["string", "array"], "items": {"type": "string"}},
        "build_near_host_ip": {"oneOf": [IPV4, IPV6]},
        "cidr": {"type": "string", "pattern": r"^/[0-9a-f.:]+\Z"},
    },
    "additionalProperties": True,
}
_OLD_DEVICE: Schema = {
    "type": "object",
    "properties": {
        "virtual_name": {"type": "string", "maxLength": 255},
        "volume_id": UUID,
        "snapshot_id": UUID,
        "volume_size": SIZE,
        "device_name": DEVICE,
        "delete_on_termination": BOOLEAN,
        "no_device": {},
        "connection_info": {"type": "string", "maxLength": 16777215},
    },
    "additionalProperties": False,
}


def _device(version: Version) -> Schema:
    properties: Schema = {
        "uuid": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._-]*\Z"},
        "image_id": UUID,
        "source_type": {"type": "string", "enum": ["volume", "image", "snapshot", "blank"]},
        "destination_type": {"type": "string", "enum": ["local", "volume"]},
        "volume_id": UUID,
        "snapshot_id": UUID,
        "volume_size": SIZE,
        "guest_format": SHORT,
        "device_name": DEVICE,
        "device_type": SHORT,
        "disk_bus": SHORT,
        "boot_index": {"type": ["integer", "string", "null"], "pattern": r"^-?[0-9]{1,9}\Z"},
        "delete_on_termination": BOOLEAN,
        "no_device": {},
        "connection_info": {"type": "string", "maxLength": 16777215},
    }
    if version == (2, 32) or version >= (2, 42):
        properties["tag"] = TAG
    if version >= (2, 67):
        properties["volume_type"] = {"type": ["string", "null"], "maxLength": 255}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _networks(version: Version) -> Schema:
    properties: Schema = {"uuid": UUID, "port": UUID_OR_NULL, "fixed_ip": {"oneOf": [IPV4, IPV6]}}
    if (2, 32) <= version <= (2, 36) or version >= (2, 42):
        properties["tag"] = TAG
    interfaces: Schema = {
        "type": "array",
        "items": {"type": "object", "properties": properties, "additionalProperties": False},
    }
    if version < (2, 37):
        return interfaces
    return {"oneOf": [interfaces, {"type": "string", "enum": ["none", "auto"]}]}


def create(version: Version) -> Schema:
    """Return the schema of ``POST /servers``."""
    properties: Schema = {
        "name": NAME,
        "imageRef": {"type": "string", "maxLength": 1024},
        "flavorRef": {"type": ["string", "integer"], "minLength": 1, "maxLength": 1024},
        "adminPass": {"type": "string", "maxLength": 255},
        "metadata": METADATA,
        "networks": _networks(version),
        "OS-DCF:diskConfig": DISK_CONFIG,
        "accessIPv4": IPV4,
        "accessIPv6": IPV6,
        "key_name": NAMED,
        "availability_zone": NAMED,
        "config_drive": OLD_BOOLEAN,
        "min_count": POSITIVE,
        "max_count": POSITIVE,
        "return_reservation_id": BOOLEAN,
        "security_groups": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": NAMED}, "additionalProperties": False},
        },
        "user_data": USER_DATA,
        "block_device_mapping": {"type": "array", "items": _OLD_DEVICE},
        "block_device_mapping_v2": {"type": "array", "items": _device(version)},
    }
    late: dict[Version, Schema] = {
        (2, 19): {"description": DESCRIPTION},
        (2, 52): {"tags": TAGS},
        (2, 63): {"trusted_image_certificates": CERTIFICATES},
        (2, 74): {"host": NAMED, "hypervisor_hostname": NAMED},
        (2, 90): {"hostname": LABEL},
        (2, 94): {"hostname": FQDN},
    }
    for since, fields in late.items():
        if version >= since:
            properties |= fields
    if version < (2, 57):
        properties["personality"] = PERSONALITY
    required = ("name", "flavorRef", "networks") if version >= (2, 37) else ("name", "flavorRef")
    schema = body("server", properties, required)
    schema["properties"] |= {"os:scheduler_hints": HINTS, "OS-SCH-HNT:scheduler_hints": HINTS}
    return schema


def update(version: Version) -> Schema:
    """Return the schema of ``PUT /servers/{id}``."""
    properties: Schema = {"name": NAME, "accessIPv4": IPV4, "accessIPv6": IPV6, "OS-DCF:diskConfig": DISK_CONFIG}
    if version >= (2, 19):
        properties["description"] = DESCRIPTION
    if version >= (2, 90):
        properties["hostname"] = LABEL if version < (2, 94) else FQDN
    return body("server", properties)
