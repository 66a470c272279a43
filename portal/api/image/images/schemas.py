"""JSON schemas of the Image API: the schemas published at ``/v2/schemas``, and the schemas that validate requests.

Also Glance's JSON patches: ``application/openstack-images-v2.1-json-patch`` and its older 2.0.
"""

import re
from typing import Any

from django.conf import settings

from portal.api.common.bodies import JSONParser
from portal.api.frame import Json, Schema
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.images.records.changes import Change, Operation
from provisioning.images.records.fields import MAX_VALUE, READ_ONLY, RESERVED, check_name
from provisioning.images.records.formats import CONTAINER_FORMATS, DISK_FORMATS
from provisioning.images.records.properties import NULLABLE

UUID_PATTERN = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"
MEMBER_STATUS = ["pending", "accepted", "rejected"]


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _read_only(kind: str | list[str], description: str, **more: Any) -> Schema:
    return {"type": kind, "description": description, "readOnly": True, **more}


IMAGE_PROPERTIES: Schema = {
    "id": _text("An identifier for the image", pattern=UUID_PATTERN),
    "name": {"type": ["null", "string"], "maxLength": 255, "description": "Descriptive name for the image"},
    "status": _read_only(
        "string",
        "Status of the image",
        enum=[
            "queued",
            "saving",
            "active",
            "killed",
            "deleted",
            "uploading",
            "importing",
            "pending_delete",
            "deactivated",
        ],
    ),
    "visibility": _text("Scope of image accessibility", enum=["community", "public", "private", "shared"]),
    "owner": {"type": ["null", "string"], "description": "Owner of the image", "maxLength": 255},
    "disk_format": {
        "type": ["null", "string"],
        "enum": [None, *DISK_FORMATS],
        "description": "Format of the disk",
    },
    "container_format": {
        "type": ["null", "string"],
        "enum": [None, *CONTAINER_FORMATS],
        "description": "Format of the container",
    },
    "size": _read_only(["null", "integer"], "Size of image file in bytes"),
    "virtual_size": _read_only(["null", "integer"], "Virtual size of image in bytes"),
    "checksum": _read_only(["null", "string"], "md5 hash of image contents.", maxLength=32),
    "os_hash_algo": _read_only(["null", "string"], "Algorithm to calculate the os_hash_value", maxLength=64),
    "os_hash_value": _read_only(["null", "string"], "Hexdigest of the image contents", maxLength=128),
    "os_hidden": {"type": "boolean", "description": "If true, image will not appear in default image list response."},
    "protected": {"type": "boolean", "description": "If true, image will not be deletable."},
    "min_disk": {"type": "integer", "description": "Amount of disk space (in GB) required to boot image."},
    "min_ram": {"type": "integer", "description": "Amount of ram (in MB) required to boot image."},
    "tags": {
        "type": "array",
        "items": {"type": "string", "maxLength": 255},
        "description": "List of strings related to the image",
    },
    "created_at": _read_only("string", "Date and time of image registration"),
    "updated_at": _read_only("string", "Date and time of the last image modification"),
    "self": _read_only("string", "An image self url"),
    "file": _read_only("string", "An image file url"),
    "schema": _read_only("string", "An image schema url"),
    "kernel_id": {"type": ["null", "string"], "description": "ID of the image with the kernel that boots this one."},
    "ramdisk_id": {"type": ["null", "string"], "description": "ID of the image with the ramdisk that boots this one."},
    "stores": _read_only("string", "Store in which image data resides.  Only present when there is any."),
}
MEMBER_PROPERTIES: Schema = {
    "image_id": _text("An identifier for the image", pattern=UUID_PATTERN),
    "member_id": _text("An identifier for the image member (tenantId)"),
    "status": _text("The status of this image member", enum=MEMBER_STATUS),
    "created_at": _text("Date and time of image member creation"),
    "updated_at": _text("Date and time of last modification of image member"),
    "schema": _read_only("string", "Schema of the member"),
}
TASK_PROPERTIES: Schema = {
    "id": _text("An identifier for the task", pattern=UUID_PATTERN),
    "type": _text("The type of task represented by this content", enum=["import", "api_image_import"]),
    "status": _text("The current status of this task", enum=["pending", "processing", "success", "failure"]),
    "input": {"type": ["null", "object"], "description": "The parameters required by task, JSON blob"},
    "result": {"type": ["null", "object"], "description": "The result of current task, JSON blob"},
    "owner": _text("An identifier for the owner of this task"),
    "message": _text("Human-readable informative message only included when appropriate (usually on failure)"),
    "image_id": _text("Image associated with the task"),
    "request_id": _text("Human-readable informative request-id"),
    "user_id": _text("User associated with the task"),
    "expires_at": {"type": ["null", "string"], "description": "Datetime when this resource would be removed"},
    "created_at": _text("Datetime when this resource was created"),
    "updated_at": _text("Datetime when this resource was updated"),
    "self": _read_only("string", "A task self url"),
    "schema": _read_only("string", "A task schema url"),
}


def _list_of(plural: str, item: Schema) -> Schema:
    link = {"type": "string"}
    return {
        "name": plural,
        "properties": {plural: {"type": "array", "items": item}, "first": link, "next": link, "schema": link},
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    }


IMAGE_SCHEMA: Schema = {
    "name": "image",
    "properties": IMAGE_PROPERTIES,
    "additionalProperties": {"type": "string"},
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}
MEMBER_SCHEMA: Schema = {"name": "member", "properties": MEMBER_PROPERTIES}
TASK_SCHEMA: Schema = {"name": "task", "properties": TASK_PROPERTIES}


def published(name: str) -> Schema | None:
    """Return the schema of ``GET /v2/schemas/{name}``, with the disk formats that the operator allows; None for an
    unknown name.
    """
    formats = {**IMAGE_PROPERTIES["disk_format"], "enum": [None, *settings.IMAGE_DISK_FORMATS]}
    image = {**IMAGE_SCHEMA, "properties": {**IMAGE_PROPERTIES, "disk_format": formats}}
    items = {"image": image, "member": MEMBER_SCHEMA, "task": TASK_SCHEMA}
    lists = {f"{each}s": _list_of(f"{each}s", schema) for each, schema in items.items()}
    return {**items, **lists}.get(name)


IMAGE_CREATE: Schema = {
    "type": "object",
    "properties": {
        **{name: schema for name, schema in IMAGE_PROPERTIES.items() if name not in READ_ONLY},
        **{name: {} for name in sorted(READ_ONLY | RESERVED)},  # rejected by name, whatever their value: 403
        "id": {"type": "string", "format": "uuid"},
        "min_disk": {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER},
        "min_ram": {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER},
        **{name: {"type": ["null", "string"], "maxLength": MAX_VALUE} for name in sorted(NULLABLE)},
    },
    "additionalProperties": {"type": "string", "maxLength": MAX_VALUE},
}
IMAGE_PATCH: Schema = {
    "type": "array",
    "maxItems": 1000,
    "items": {
        "type": "object",
        "properties": {
            "op": {"enum": ["add", "replace", "remove"]},
            "path": {"type": "string"},
            "add": {"type": "string"},
            "replace": {"type": "string"},
            "remove": {"type": "string"},
            "value": {},
        },
    },
}
"""Both forms of a patch; ``patches`` checks the required members."""
MEMBER_CREATE: Schema = {
    "type": "object",
    "properties": {"member": {"type": "string", "minLength": 1, "maxLength": 255}},
    "required": ["member"],
}
MEMBER_UPDATE: Schema = {
    "type": "object",
    "properties": {"status": {"type": "string", "enum": MEMBER_STATUS}},
    "required": ["status"],
}
_WORDS: Schema = {"type": "array", "items": {"type": "string"}}
_FILTERS = (
    *("limit", "marker", "sort", "sort_key", "sort_dir", "name", "id", "status", "visibility", "owner"),
    *("member_status", "tag", "protected", "os_hidden", "disk_format", "container_format", "checksum"),
    *("os_hash_algo", "os_hash_value", "size", "size_min", "size_max", "created_at", "updated_at"),
)
IMAGE_QUERY: Schema = {
    "type": "object",
    "properties": dict.fromkeys(_FILTERS, _WORDS),
    "additionalProperties": _WORDS,
}
"""A parameter that the schema does not list filters by the additional property of that name."""


OPERATIONS: tuple[Operation, ...] = ("add", "remove", "replace")
MAX_OPERATIONS = 1000
LOCATION_DEPTHS = {"add": 2, "remove": 2, "replace": 1}
"""Operation → path segments of its pointer below ``locations``."""


class PatchParser(JSONParser):
    """Version 2.1: ``{"op": "replace", "path": "/name", "value": …}``."""

    media_type = "application/openstack-images-v2.1-json-patch"


class OldPatchParser(JSONParser):
    """Version 2.0: ``{"replace": "/name", "value": …}``; ``add`` is only for missing attributes."""

    media_type = "application/openstack-images-v2.0-json-patch"


PATCHES = ", ".join(sorted((PatchParser.media_type, OldPatchParser.media_type)))
"""The content types that a PATCH may have."""


def read_patch(patch: Any, *, old: bool = False) -> list[Change]:
    """Return the changes of a patch, for ``images.services.patch``; ``old`` is version 2.0.

    Raises InvalidInputError for a malformed patch, and ForbiddenError for attributes that the caller may not set.
    """
    if not isinstance(patch, list) or len(patch) > MAX_OPERATIONS:
        raise InvalidInputError("Request body must be a JSON array of operation objects.")
    return [_read(entry, old=old) for entry in patch]


def _read(entry: Any, *, old: bool) -> Change:
    if not isinstance(entry, dict):
        raise InvalidInputError("Operations must be JSON objects.")
    operation, pointer = _old_form(entry) if old else _form(entry)
    path = _parts(pointer)
    if len(path) != (LOCATION_DEPTHS[operation] if path[0] == "locations" else 1):
        raise InvalidInputError(f"Invalid JSON pointer for this resource: '/{'/'.join(path)[:80]}'")
    if operation != "remove" and "value" not in entry:
        raise InvalidInputError(f'Operation "{operation}" requires a member named "value".')
    if path[0] == "locations":
        verb = {"add": "add", "remove": "remove", "replace": "update"}[operation]
        raise ForbiddenError(f"It's not allowed to {verb} locations if locations are invisible.", field="locations")
    check_name(path[0])
    return Change(operation, path[0], entry.get("value"), only_new=old)


def _form(entry: Json) -> tuple[Operation, Any]:
    """Return operation and pointer of version 2.1."""
    known = f"It must be one of the following: {', '.join(OPERATIONS)}."
    if entry.get("op") is None:
        raise InvalidInputError(f"Unable to find `op` in JSON Schema change. {known}")
    operation = next((name for name in OPERATIONS if name == entry["op"]), None)
    if operation is None:
        raise InvalidInputError(f"Invalid operation: `{str(entry['op'])[:80]}`. {known}")
    if "path" not in entry:
        raise InvalidInputError("Unable to find 'path' in JSON Schema change")
    return operation, entry["path"]


def _old_form(entry: Json) -> tuple[Operation, Any]:
    """Return operation and pointer of version 2.0."""
    found = [name for name in OPERATIONS if name in entry]
    if len(found) != 1:
        quantity = "only" if found else "exactly"
        msg = f'Operation objects must contain {quantity} one member named "add", "remove", or "replace".'
        raise InvalidInputError(msg)
    return found[0], entry[found[0]]


def _parts(pointer: Any) -> list[str]:
    """Return the parts of a JSON pointer, unescaped."""
    shown = f"Pointer `{str(pointer)[:80]}`"
    problem = ""
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        problem = 'does not start with "/".'
    elif re.search(r"/\s*/", pointer[1:]):
        problem = 'contains adjacent "/".'
    elif not pointer[1:].strip():
        problem = "does not contains valid token."
    elif pointer.endswith("/"):
        problem = 'end with "/".'
    elif re.search("~(?![01])", pointer):
        problem = 'contains "~" not part of a recognized escape sequence.'
    if problem:
        raise InvalidInputError(f"{shown} {problem}")
    return [part.replace("~1", "/").replace("~0", "~").strip() for part in pointer.lstrip("/").split("/")]
