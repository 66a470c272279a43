"""Glance's JSON patches: ``application/openstack-images-v2.1-json-patch`` and its older 2.0."""

import re
from typing import Any

from portal.api.common.parsing import JSONParser
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.images.records.changes import Change, Operation
from provisioning.images.records.fields import check_name

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


def _form(entry: dict[str, Any]) -> tuple[Operation, Any]:
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


def _old_form(entry: dict[str, Any]) -> tuple[Operation, Any]:
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
