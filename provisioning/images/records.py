"""The rules of an image's record: what may be written into which field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.identity import policy
from provisioning.images.inspection import CONTAINER_FORMATS, DISK_FORMATS
from provisioning.images.models import Image

MAX_PROPERTIES = 128
"""Glance's image_property_quota."""
MAX_TAGS = 128
"""Glance's image_tag_quota."""
FIELDS = frozenset(
    {"name", "visibility", "disk_format", "container_format", "min_disk", "min_ram", "protected", "hidden"}
    | {"tags", "properties"}
)
"""What a request may set."""
FIXED_ONCE_UPLOADED = {"disk_format", "container_format"}
RESERVED = frozenset(
    {"id", "owner", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "os_hidden"}
    | {"created_at", "updated_at", "deleted_at", "deleted", "is_public", "direct_url", "locations", "stores"}
    | {"self", "file", "schema"}
)
"""Glance's own fields: never additional properties."""
PROPERTY_NAME = re.compile(r"[\w.:\-]{1,255}")
MAX_INT = 2_147_483_647


def check_values(context: RequestContext, values: Mapping[str, Any], image: Image | None = None) -> dict[str, Any]:
    """Return the values fit for the record's columns.

    Raises InvalidInputError naming the field, ForbiddenError when only an operator may do it.
    """
    unknown = values.keys() - FIELDS
    if unknown:
        msg = f"Attribute '{min(unknown)}' is read-only."
        raise ForbiddenError(msg, field=min(unknown))
    result = dict(values)
    for name, check in _CHECKS.items():
        if name in result:
            result[name] = check(name, result[name])
    becomes_public = result.get("visibility") == Image.Visibility.PUBLIC and (
        image is None or image.visibility != Image.Visibility.PUBLIC
    )
    if becomes_public and not policy.allows(context, "image:images:publicize"):
        msg = "You are not authorized to complete publicize_image action."
        raise ForbiddenError(msg, field="visibility")
    if image is not None and image.status != Image.Status.QUEUED:
        for name in FIXED_ONCE_UPLOADED & result.keys():
            if result[name] != getattr(image, name):
                msg = f"Attribute {name} can be only replaced for a queued image."
                raise ForbiddenError(msg, field=name)
    return result


def _name(field: str, value: Any) -> str:
    if value is None:
        return ""
    return _text(field, value)


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 255 or "\0" in value:
        msg = f"{value!r:.80} is not text of at most 255 characters."
        raise InvalidInputError(msg, field=field)
    return value


def _bool(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        msg = f"{value!r:.80} is not of type 'boolean'."
        raise InvalidInputError(msg, field=field)
    return value


def _size(field: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT:
        msg = f"{value!r:.80} is not a whole number from 0 to {MAX_INT}."
        raise InvalidInputError(msg, field=field)
    return value


def _choice(choices: tuple[str, ...], field: str, value: Any) -> str:
    if value not in choices:
        msg = f"{value!r:.80} is not one of {', '.join(choices)}."
        raise InvalidInputError(msg, field=field)
    return str(value)


def _visibility(field: str, value: Any) -> str:
    return _choice(tuple(Image.Visibility.values), field, value)


def _disk_format(field: str, value: Any) -> str | None:
    return None if value is None else _choice(DISK_FORMATS, field, value)


def _container_format(field: str, value: Any) -> str | None:
    return None if value is None else _choice(CONTAINER_FORMATS, field, value)


def _tags(field: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        msg = f"{value!r:.80} is not of type 'array'."
        raise InvalidInputError(msg, field=field)
    tags = sorted({_text(field, tag) for tag in value})
    if len(tags) > MAX_TAGS:
        msg = f"An image has at most {MAX_TAGS} tags."
        raise InvalidInputError(msg, field=field)
    return tags


def _properties(field: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        msg = f"{value!r:.80} is not of type 'object'."
        raise InvalidInputError(msg, field=field)
    if len(value) > MAX_PROPERTIES:
        msg = f"An image has at most {MAX_PROPERTIES} additional properties."
        raise InvalidInputError(msg, field=field)
    for name, text in value.items():
        if name in RESERVED or name in FIELDS:
            msg = f"Attribute '{name}' is reserved."
            raise ForbiddenError(msg, field=name)
        if not PROPERTY_NAME.fullmatch(name):
            msg = f"{name!r:.80} is not a name for a property."
            raise InvalidInputError(msg, field=field)
        if not isinstance(text, str) or len(text) > 65_535 or "\0" in text:
            msg = f"The value of property {name} is not text of at most 65535 characters."
            raise InvalidInputError(msg, field=name)
    return dict(value)


_CHECKS = {
    "name": _name,
    "visibility": _visibility,
    "disk_format": _disk_format,
    "container_format": _container_format,
    "min_disk": _size,
    "min_ram": _size,
    "protected": _bool,
    "hidden": _bool,
    "tags": _tags,
    "properties": _properties,
}
