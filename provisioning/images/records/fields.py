"""Validation of an image's fields."""

import uuid
from collections.abc import Mapping
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, TooLargeError
from provisioning.common.values.ids import read_id
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.common.values.text import has_control_characters
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.images.records import protections
from provisioning.images.records.formats import CONTAINER_FORMATS, DISK_FORMATS, check_taken
from provisioning.images.records.properties import NULLABLE

MAX_PROPERTIES = 128
"""Glance's image_property_quota."""
MAX_TAGS = 128
"""Glance's image_tag_quota."""
FIELDS = frozenset(
    {"name", "visibility", "disk_format", "container_format", "min_disk", "min_ram", "protected", "hidden"}
    | {"owner", "tags", "properties"}
)
"""Fields that a request may set."""
COLUMN_OF = {"os_hidden": "hidden"}
"""Attributes of the API → columns with another name."""
BASE = FIELDS - {"hidden", "properties"} | COLUMN_OF.keys()
"""Attributes that every image has: they can be replaced, but not removed."""
FIXED_ONCE_UPLOADED = {"disk_format", "container_format"}
READ_ONLY = frozenset(
    {"id", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "created_at", "updated_at"}
    | {"direct_url", "self", "file", "schema", "stores"}
)
"""Attributes that the Image service sets itself."""
RESERVED = frozenset({"location", "locations", "deleted", "deleted_at"})
"""Names that are neither attributes nor allowed as additional properties."""
RESERVED_BEGINNING = "os_glance"
MAX_VALUE = 65_535
"""Maximum length of an additional property's value."""
MAX_PROPERTIES_SIZE = 131_072
"""Maximum total length of an image's additional properties, because servers store a copy of them."""
BECOMING = {
    Image.Visibility.PUBLIC.value: ("publicize_image", "publicize_image"),
    Image.Visibility.COMMUNITY.value: ("communitize_image", "communitize_image"),
}
"""Visibility → the policy rule for setting it, and the rule's name in Glance."""


def check_values(context: RequestContext, values: Mapping[str, Any], image: Image | None = None) -> dict[str, Any]:
    """Return validated values for the columns; ``owner`` becomes ``project_id``.

    Raises InvalidInputError naming the field, TooLargeError for too many tags or properties, ForbiddenError if the
    caller may not set a value.
    """
    unknown = values.keys() - FIELDS
    if unknown:
        raise read_only(min(unknown))
    result = dict(values)
    for name, check in _CHECKS.items():
        if name in result:
            result[name] = check(name, result[name])
    if "name" in result:
        result["empty_name"] = values["name"] == ""
    if "visibility" in result:
        _check_visibility(context, result["visibility"], image)
    if "properties" in result:
        protections.check_change(context, image.properties if image else {}, result["properties"])
    if "owner" in result:
        result["project_id"] = _check_owner(context, result.pop("owner"), image)
    _check_fixed(result, image)
    return result


def _check_fixed(values: Mapping[str, Any], image: Image | None) -> None:
    if image is None or image.status == Image.Status.QUEUED:
        return
    for name in FIXED_ONCE_UPLOADED & values.keys():
        if values[name] != getattr(image, name):
            raise ForbiddenError(f"Attribute {name} can be only replaced for a queued image.", field=name)


def check_name(name: str) -> None:
    """Raise ForbiddenError for an attribute that no request may set."""
    if name in READ_ONLY:
        raise read_only(name)
    if name in RESERVED or name.startswith(RESERVED_BEGINNING):
        raise ForbiddenError(f"Attribute '{name[:80]}' is reserved.", field=name[:80])


def read_only(name: str) -> ForbiddenError:
    """Return the error for an attribute that the Image service sets itself."""
    return ForbiddenError(f"Attribute '{name[:80]}' is read-only.", field=name[:80])


def _check_visibility(context: RequestContext, visibility: str, image: Image | None) -> None:
    if visibility in BECOMING and (image is None or image.visibility != visibility):
        rule, action = BECOMING[visibility]
        if not policy.allows(context, rule):
            raise ForbiddenError(f"You are not authorized to complete {action} action.", field="visibility")


def _check_owner(context: RequestContext, owner: Any, image: Image | None) -> uuid.UUID:
    """Return the project of ``owner``.

    Only operators may set a project other than the present one (for a new image: the caller's).
    """
    parsed = read_id(owner)
    same = parsed is not None and parsed == (context.project_id if image is None else image.project_id)
    if not same and not policy.allows(context, "novella:set_image_owner"):
        msg = (
            f"You are not permitted to create images owned by '{owner!s:.80}'."
            if image is None
            else "Owner can't be updated by non admin."
        )
        raise ForbiddenError(msg, field="owner")
    if parsed is None:
        raise InvalidInputError(f"{owner!r:.80} is not the id of a project.", field="owner")
    return parsed


def _name(field: str, value: Any) -> str:
    if value is None:
        return ""
    return _text(field, value)


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 255 or has_control_characters(value):
        msg = f"{value!r:.80} is not text of at most 255 characters, none of them a control character."
        raise InvalidInputError(msg, field=field)
    return value


def _bool(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(f"{value!r:.80} is not of type 'boolean'.", field=field)
    return value


def _size(field: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INTEGER:
        raise InvalidInputError(f"{value!r:.80} is not a whole number from 0 to {MAX_INTEGER}.", field=field)
    return value


def _choice(choices: tuple[str, ...], field: str, value: Any) -> str:
    if value not in choices:
        raise InvalidInputError(f"{value!r:.80} is not one of {', '.join(choices)}.", field=field)
    return str(value)


def _visibility(field: str, value: Any) -> str:
    return _choice(tuple(Image.Visibility.values), field, value)


def _disk_format(field: str, value: Any) -> str | None:
    if value is None:
        return None
    check_taken(_choice(DISK_FORMATS, field, value))
    return str(value)


def _container_format(field: str, value: Any) -> str | None:
    return None if value is None else _choice(CONTAINER_FORMATS, field, value)


def _tags(field: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise InvalidInputError(f"{value!r:.80} is not of type 'array'.", field=field)
    tags = sorted({_text(field, tag) for tag in value})
    if len(tags) > MAX_TAGS:
        msg = (
            "The limit has been exceeded on the number of allowed image tags."
            f" Attempted: {len(tags)}, Maximum: {MAX_TAGS}"
        )
        raise TooLargeError(msg, field=field)
    return tags


def _properties(field: str, value: Any) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise InvalidInputError(f"{value!r:.80} is not of type 'object'.", field=field)
    for name, text in value.items():
        check_name(name)
        if name in BASE:
            raise ForbiddenError(f"Attribute '{name}' is reserved.", field=name)
        if not 0 < len(name) <= 255 or has_control_characters(name):
            msg = "Custom property should not be greater than 255 characters, and not without a name."
            raise InvalidInputError(msg, field=field)
        if text is None and name in NULLABLE:
            continue
        if not isinstance(text, str) or len(text) > MAX_VALUE or "\0" in text:
            msg = f"The value of property {name[:80]} is not text of at most {MAX_VALUE} characters."
            raise InvalidInputError(msg, field=name[:80])
    if sum(len(name) + len(text or "") for name, text in value.items()) > MAX_PROPERTIES_SIZE:
        msg = f"The additional properties of an image have at most {MAX_PROPERTIES_SIZE} characters together."
        raise TooLargeError(msg, field=field)
    if len(value) > MAX_PROPERTIES:
        msg = (
            "The limit has been exceeded on the number of allowed image properties."
            f" Attempted: {len(value)}, Maximum: {MAX_PROPERTIES}"
        )
        raise TooLargeError(msg, field=field)
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
