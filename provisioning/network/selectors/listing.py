"""Parts of lists: filtered, sorted, and page by page."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet

from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import read_id
from provisioning.common.ordering import Sort, behind, order_by

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a list is wanted.

    ``conditions``: Django lookup → values, one of which must match.  ``backwards`` takes the rows before the marker
    instead of those behind it.
    """

    conditions: Mapping[str, Sequence[object]]
    sort: tuple[Sort, ...] = ()
    limit: int | None = None
    marker: str | uuid.UUID | None = None
    backwards: bool = False


def part_of(rows: QuerySet[M], part: Part) -> list[M]:
    """Return a part of a list, by id where ``sort`` leaves it open.

    Raises InvalidInputError for ``marker`` when the caller sees no such row.
    """
    visible = rows
    for lookup, values in part.conditions.items():
        rows = rows.filter(**{f"{lookup}__in": list(values)})
    keys = [*part.sort, *([] if any(key.key == "id" for key in part.sort) else [Sort("id", descending=False)])]
    if part.backwards:
        keys = [key.reversed() for key in keys]
    if part.marker is not None:
        marker = visible.filter(pk=read_id(part.marker) or uuid.UUID(int=0)).first()
        if marker is None:
            msg = f"Invalid input for operation: The resource {part.marker} of the marker could not be found."
            raise InvalidInputError(msg, field="marker")
        rows = rows.filter(behind(marker, keys))
    found = list(rows.distinct().order_by(*order_by(keys))[: part.limit])
    return found[::-1] if part.backwards else found
