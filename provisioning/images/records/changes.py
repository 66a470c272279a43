"""Lists of changes to an image, as in a JSON patch. They are applied in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.images.models import Image
from provisioning.images.records import protections
from provisioning.images.records.fields import BASE, COLUMN_OF

Operation = Literal["add", "replace", "remove"]


@dataclass(frozen=True, slots=True)
class Change:
    """One operation on an attribute, with its name in the API."""

    operation: Operation
    name: str
    value: Any = None
    only_new: bool = False
    """Whether ``add`` fails if the attribute exists, as in Glance's v2.0 patch format."""


def apply(context: RequestContext, image: Image, changes: Sequence[Change]) -> dict[str, Any]:
    """Return the new values of an image's fields after the changes, for ``records.check_values``.

    Additional properties that the caller may not read are treated as missing. Raises ForbiddenError for an attribute
    that cannot be removed, ConflictError for a missing property, and for one that exists if ``only_new``.
    """
    values: dict[str, Any] = {}
    properties = dict(image.properties)
    for change in changes:
        if change.name in BASE:
            values[COLUMN_OF.get(change.name, change.name)] = _base(change)
        else:
            _change(context, properties, change)
            values["properties"] = properties
    return values


def _base(change: Change) -> Any:
    if change.operation == "remove":
        raise ForbiddenError(f"Property {change.name} may not be removed.", field=change.name)
    if change.operation == "add" and change.only_new:
        raise _present(change)
    return change.value


def _change(context: RequestContext, properties: dict[str, str | None], change: Change) -> None:
    there = change.name in properties and protections.allows(context, change.name, "read")
    if change.operation == "add":
        if there and change.only_new:
            raise _present(change)
        properties[change.name] = change.value
        return
    if not there:
        raise ConflictError(f"Property {change.name[:80]} does not exist.", field=change.name[:80])
    if change.operation == "remove":
        del properties[change.name]
    else:
        properties[change.name] = change.value


def _present(change: Change) -> ConflictError:
    return ConflictError(f"Property {change.name[:80]} already present.", field=change.name[:80])
