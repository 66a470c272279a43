"""The engine of all lists: a resource declares what its lists are filtered and sorted by, and pages are cut from it.

Pages neither skip nor repeat a row: they begin behind a marker, in an order that leaves nothing open.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import Combinable, OrderBy

from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import read_id
from provisioning.common.row_shapes import listed

Row = TypeVar("Row", bound=Model)
Filter = str | Callable[[Any], Q]
"""A column, or a lookup of Django's, that is compared with the value; or what makes a condition of the value."""
NOTHING = Q(pk__in=[])
"""The condition that no row meets."""


def _wrong_marker(message: str) -> Exception:
    return InvalidInputError(message, field="marker")


@dataclass(frozen=True, slots=True)
class Sort:
    """One sort key: a column of the model, or a word of the ``sort_keys`` of a listing, and the direction."""

    key: str
    descending: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a list is asked for; every one of the filters must hold.

    ``backwards`` takes the rows before the marker instead of those behind it.
    """

    filters: Sequence[tuple[str, Any]] = ()
    sort: Sequence[Sort] = ()
    limit: int | None = None
    marker: str | uuid.UUID | None = None
    backwards: bool = False


@dataclass(frozen=True)
class Listing(Generic[Row]):
    """How the lists of one resource are filtered, sorted and cut."""

    order: Sequence[Sort]
    """The usual order; its keys also decide where the keys that are asked for leave the order open."""
    filters: Mapping[str, Filter] = field(default_factory=dict)
    sort_keys: Mapping[str, str] | None = None
    """Word → column; None: sort keys are columns."""
    made: Mapping[str, Combinable] = field(default_factory=dict)
    """Columns that the model does not have."""
    marker: str = "pk"
    """The column that markers name."""
    no_marker: str = "Marker {marker} could not be found."
    unknown_marker: Callable[[str], Exception] = _wrong_marker
    """Makes the error of a marker that names no row."""

    def narrowed(self, rows: QuerySet[Row], filters: Iterable[tuple[str, Any]]) -> QuerySet[Row]:
        """Return the rows that every filter lets pass; a name that is not declared is a lookup of Django's."""
        for name, value in filters:
            condition = self.filters.get(name, name)
            rows = rows.filter(Q(**{condition: value}) if isinstance(condition, str) else condition(value))
        return rows

    def page(self, rows: QuerySet[Row], part: Part, *, among: QuerySet[Row] | None = None) -> list[Row]:
        """Return a part of the rows; ``among``: those that a marker may name, these rows when nothing is said.

        Raises InvalidInputError for an unknown sort key, and ``unknown_marker`` for a marker that names none of them.
        """
        keys = self._keys(part, rows.model)
        made = {key.key: self.made[key.key] for key in keys if key.key in self.made}
        found = self.narrowed(rows, part.filters).annotate(**made)
        if part.marker is not None:
            marked = (rows if among is None else among).annotate(**made)
            found = found.filter(self._behind(self._place(marked, part.marker, keys), keys, rows.model))
        found = found.order_by(*(self._ordered(key, rows.model) for key in keys))
        page = listed(found if part.limit is None else found[: part.limit])
        return page[::-1] if part.backwards else page

    def _keys(self, part: Part, model: type[Model]) -> list[Sort]:
        """Return the columns to sort by, each once, up to the one that no two rows share."""
        keys: dict[str, Sort] = {}
        for key in (*(replace(asked, key=self._column(asked.key)) for asked in part.sort), *self.order):
            keys.setdefault(key.key, replace(key, descending=key.descending != part.backwards))
            if key.key == model._meta.pk.name:
                break
        return list(keys.values())

    def _column(self, key: str) -> str:
        if self.sort_keys is None:
            return key
        if key not in self.sort_keys:
            raise InvalidInputError(f"Sort key {key!r} is not supported.", field="sort_key")
        return self.sort_keys[key]

    def _place(self, rows: QuerySet[Row], marker: str | uuid.UUID, keys: Sequence[Sort]) -> dict[str, Any]:
        """Return the values of the row that the marker names, by sort key."""
        uuids = rows.model._meta.get_field(self._marker_of(rows.model)).get_internal_type() == "UUIDField"
        value = read_id(marker) if uuids else marker
        places = rows.prefetch_related(None).filter(**{self.marker: value}) if value else rows.none()
        found = places.values(*(key.key for key in keys)).first()
        if found is None:
            raise self.unknown_marker(self.no_marker.format(marker=str(marker)[:64]))
        return found

    def _marker_of(self, model: type[Model]) -> str:
        return model._meta.pk.name if self.marker == "pk" else self.marker

    def _may_be_empty(self, key: str, model: type[Model]) -> bool:
        columns = {name: field for field in model._meta.concrete_fields for name in (field.name, field.attname)}
        return key not in columns or columns[key].null

    def _ordered(self, key: Sort, model: type[Model]) -> OrderBy | str:
        """Return Django's form; empty values stand last when rising and first when falling, on every database."""
        if not self._may_be_empty(key.key, model):  # plain, so that an index serves
            return f"-{key.key}" if key.descending else key.key
        return F(key.key).desc(nulls_first=True) if key.descending else F(key.key).asc(nulls_last=True)

    def _behind(self, place: Mapping[str, Any], keys: Sequence[Sort], model: type[Model]) -> Q:
        """Match the rows that come after a place: equal to it in the first keys, further in the next one."""
        equal, found = Q(), NOTHING
        for key in keys:
            value, empty = place[key.key], Q(**{f"{key.key}__isnull": True})
            if value is None:
                further = ~empty if key.descending else NOTHING
            else:
                further = Q(**{f"{key.key}__{'lt' if key.descending else 'gt'}": value})
                if not key.descending and self._may_be_empty(key.key, model):
                    further |= empty
            found |= equal & further
            equal &= empty if value is None else Q(**{key.key: value})
        first = keys[0]
        if len(keys) == 1 or self._may_be_empty(first.key, model):
            return found
        # What follows from the rest, said for the sake of the index: begin at the marker.
        return Q(**{f"{first.key}__{'lte' if first.descending else 'gte'}": place[first.key]}) & found
