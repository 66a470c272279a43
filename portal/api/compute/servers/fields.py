"""Fields that the schemas of servers share."""

from portal.api.compute.dialect.schemas import BOOLEAN, Schema
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
