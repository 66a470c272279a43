"""Glance's JSON patches: ``application/openstack-images-v2.1-json-patch`` and its older 2.0."""

from __future__ import annotations

from typing import Any

from portal.api.common.parsing import JSONParser
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.images.models import Image
from provisioning.images.records import FIELDS, RESERVED

API_NAMES = {"os_hidden": "hidden"}
"""Attributes whose column has another name."""
BASE = (FIELDS - {"properties"}) - {"hidden"} | API_NAMES.keys()
"""Attributes that are always there: they can be replaced, not removed."""
OPERATIONS = ("add", "replace", "remove")
MAX_OPERATIONS = 1000


class PatchParser(JSONParser):
    """Version 2.1: ``{"op": "replace", "path": "/name", "value": …}``."""

    media_type = "application/openstack-images-v2.1-json-patch"


class OldPatchParser(JSONParser):
    """Version 2.0: ``{"replace": "/name", "value": …}``."""

    media_type = "application/openstack-images-v2.0-json-patch"


def apply_patch(image: Image, patch: Any) -> dict[str, Any]:
    """Return the new values of an image's fields for ``images.services.update``, in the order of the operations.

    Raises InvalidInputError for a malformed patch, ForbiddenError for attributes that are not the caller's to set,
    ConflictError for one that is not there.
    """
    if not isinstance(patch, list) or len(patch) > MAX_OPERATIONS:
        msg = "Request body must be a JSON array of operation objects."
        raise InvalidInputError(msg)
    values: dict[str, Any] = {}
    properties = dict(image.properties)
    for entry in patch:
        operation, path, value = _read(entry)
        if path[0] == "tags" and len(path) == 2:
            values["tags"] = _tagged(values.get("tags", image.tags), operation, path[1])
        elif len(path) > 1:
            msg = f"Invalid JSON pointer for this resource: '/{'/'.join(path)[:80]}'"
            raise InvalidInputError(msg)
        elif path[0] in BASE:
            if operation == "remove":
                msg = f"Property {path[0]} may not be removed."
                raise ForbiddenError(msg, field=path[0])
            values[API_NAMES.get(path[0], path[0])] = value
        elif path[0] in RESERVED:
            msg = f"Attribute '{path[0]}' is read-only."
            raise ForbiddenError(msg, field=path[0])
        else:
            _change(properties, operation, path[0], value)
            values["properties"] = properties
    return values


def _read(entry: Any) -> tuple[str, list[str], Any]:
    """Return operation, path in parts and value of one entry, in either version's form."""
    if not isinstance(entry, dict):
        msg = "Operations must be JSON objects."
        raise InvalidInputError(msg)
    operation = entry.get("op")
    pointer = entry.get("path")
    if operation is None:
        operation = next((name for name in OPERATIONS if name in entry), None)
        pointer = entry.get(operation) if operation else None
    if operation not in OPERATIONS:
        msg = f"Operations must be one of: {', '.join(OPERATIONS)}."
        raise InvalidInputError(msg)
    if not isinstance(pointer, str) or not pointer.startswith("/") or pointer == "/":
        msg = f"Invalid JSON pointer for this resource: {pointer!r:.80}"
        raise InvalidInputError(msg)
    if operation != "remove" and "value" not in entry:
        msg = f'Operation "{operation}" requires a member named "value".'
        raise InvalidInputError(msg)
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    return operation, parts, entry.get("value")


def _tagged(tags: list[str], operation: str, tag: str) -> list[str]:
    """Add or remove one tag, ``/tags/NAME``."""
    rest = [known for known in tags if known != tag]
    return rest if operation == "remove" else [*rest, tag]


def _change(properties: dict[str, str], operation: str, name: str, value: Any) -> None:
    """Add, replace or remove one additional property."""
    if operation != "add" and name not in properties:
        msg = f"Property {name[:80]} does not exist."
        raise ConflictError(msg, field=name[:80])
    if operation == "remove":
        del properties[name]
    else:
        properties[name] = value
