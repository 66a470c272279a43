"""Engine of all lists: a resource declares its filters and sort keys, and pages are cut from its rows.

Pages neither skip nor repeat a row: they begin after a marker, in a total order.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar

from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import Combinable, OrderBy

from provisioning.common.database.row_shapes import listed
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id

Row = TypeVar("Row", bound=Model)
Item = TypeVar("Item")
Filter = str | Callable[[Any], Q]
"""A column or Django lookup that is compared with the value, or a function that returns a condition for it."""
NOTHING = Q(pk__in=[])
"""A condition that no row meets."""


def _wrong_marker(message: str) -> Exception:
    return InvalidInputError(message, field="marker")


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort key, which is a column of the model or a key of ``sort_keys``, and the direction."""

    key: str
    descending: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """The requested page of a list; rows must meet all filters.

    ``backwards`` selects the rows before the marker instead of the rows after it.
    """

    filters: Sequence[tuple[str, Any]] = ()
    sort: Sequence[Sort] = ()
    limit: int | None = None
    marker: str | uuid.UUID | None = None
    backwards: bool = False
    offset: int = 0
    """The number of rows to skip, for lists that are paged by offset."""

    @property
    def bounds(self) -> slice:
        return slice(self.offset, None if self.limit is None else self.offset + self.limit)


@dataclass(frozen=True)
class Listing(Generic[Row]):
    """Declares how the lists of a resource are filtered, sorted and cut."""

    order: Sequence[Sort]
    """The default order; its keys are also appended to requested sort keys, so that the order is total."""
    filters: Mapping[str, Filter] = field(default_factory=dict)
    sort_keys: Mapping[str, str] | None = None
    """Sort key → column; None: sort keys are columns."""
    made: Mapping[str, Combinable] = field(default_factory=dict)
    """Computed columns."""
    marker: str = "pk"
    """The column whose value clients send as marker."""
    no_marker: str = "Marker {marker} could not be found."
    unknown_marker: Callable[[str], Exception] = _wrong_marker
    """Returns the error for an unknown marker."""

    def narrowed(self, rows: QuerySet[Row], filters: Iterable[tuple[str, Any]]) -> QuerySet[Row]:
        """Return the rows that meet all filters; an undeclared name is a Django lookup."""
        for name, value in filters:
            condition = self.filters.get(name, name)
            rows = rows.filter(Q(**{condition: value}) if isinstance(condition, str) else condition(value))
        return rows

    def page(self, rows: QuerySet[Row], part: Part, *, among: QuerySet[Row] | None = None) -> list[Row]:
        """Return a page of the rows. Has the arguments and raises the errors of ``cut``."""
        page = listed(self.cut(rows, part, among=among))
        return page[::-1] if part.backwards else page

    def cut(self, rows: QuerySet[Row], part: Part, *, among: QuerySet[Row] | None = None) -> QuerySet[Row]:
        """Return the query of a page, in reverse order if it is before the marker. ``among`` are the rows that can be
        markers, by default ``rows``; if several rows have the marker's value, the first one is the marker.

        Raises InvalidInputError for an unknown sort key, and ``unknown_marker`` for an unknown marker.
        """
        keys = self._keys(part, rows.model)
        made = {key.key: self.made[key.key] for key in keys if key.key in self.made}
        records = self.narrowed(rows, part.filters).annotate(**made)
        place = None
        if part.marker is not None:
            place = self._place((rows if among is None else among).annotate(**made), part.marker, keys)
        records = after(records, keys, place)
        return records[part.bounds]

    def _keys(self, part: Part, model: type[Model]) -> list[Sort]:
        """Return the columns to sort by without duplicates, up to the first unique column."""
        keys: dict[str, Sort] = {}
        for key in (*(replace(requested, key=self._column(requested.key)) for requested in part.sort), *self.order):
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
        """Return the marker row's value for each sort key."""
        uuids = rows.model._meta.get_field(self._marker_of(rows.model)).get_internal_type() == "UUIDField"
        value = read_id(marker) if uuids else marker
        places = rows.prefetch_related(None).filter(**{self.marker: value}) if value else rows.none()
        result = places.values(*(key.key for key in keys)).first()
        if result is None:
            raise self.unknown_marker(self.no_marker.format(marker=str(marker)[:64]))
        return result

    def _marker_of(self, model: type[Model]) -> str:
        return model._meta.pk.name if self.marker == "pk" else self.marker


def after(rows: QuerySet[Row], keys: Sequence[Sort], place: Mapping[str, Any] | None) -> QuerySet[Row]:
    """Return the rows after a marker row, sorted by the keys, of which the last is unique; nulls are last in ascending
    and first in descending order. ``place``: the marker row's values of the keys; None: return all rows.
    """
    records = rows if place is None else rows.filter(_behind(place, keys, rows.model))
    ways = ((key.key, key.descending) for key in keys)
    return records.order_by(*(ordering(key, rows.model, descending=way, empty_last=not way) for key, way in ways))


def _may_be_empty(key: str, model: type[Model]) -> bool:
    columns = {name: field for field in model._meta.concrete_fields for name in (field.name, field.attname)}
    return key not in columns or columns[key].null


def ordering(key: str | Combinable, model: type[Model], *, descending: bool, empty_last: bool) -> OrderBy | str:
    """Return Django's form of a sort key; nulls are last or first on every database."""
    if isinstance(key, str) and not _may_be_empty(key, model):  # the plain form can use an index
        return f"-{key}" if descending else key
    nulls: Any = {"nulls_last" if empty_last else "nulls_first": True}
    expression: Any = F(key) if isinstance(key, str) else key
    order_by: OrderBy = expression.desc(**nulls) if descending else expression.asc(**nulls)
    return order_by


def _behind(place: Mapping[str, Any], keys: Sequence[Sort], model: type[Model]) -> Q:
    """Match the rows after the marker's row: equal in the first keys, and greater (less, if descending) in the next
    one.

    ``place`` has the values of the marker's row.
    """
    equal, result = Q(), NOTHING
    for key in keys:
        value, empty = place[key.key], Q(**{f"{key.key}__isnull": True})
        if value is None:
            additional = ~empty if key.descending else NOTHING
        else:
            additional = Q(**{f"{key.key}__{'lt' if key.descending else 'gt'}": value})
            if not key.descending and _may_be_empty(key.key, model):
                additional |= empty
        result |= equal & additional
        equal &= empty if value is None else Q(**{key.key: value})
    first = keys[0]
    if len(keys) == 1 or _may_be_empty(first.key, model):
        return result
    # Redundant, but lets the database begin at the marker in an index.
    return Q(**{f"{first.key}__{'lte' if first.descending else 'gte'}": place[first.key]}) & result


def _attribute(item: Any, lookup: str) -> Any:
    return attrgetter(lookup.replace("__", "."))(item)


def _pk(item: Any) -> object:
    return item.pk


@dataclass(frozen=True, kw_only=True)
class ItemListing(Generic[Item]):
    """Declares how lists of items without a table are filtered, sorted and cut."""

    order: Sequence[Sort] = ()
    """The default order, also of items that are equal in the requested sort keys; empty: the order of the items."""
    value: Callable[[Item, str], Any] = _attribute
    """Returns the value of a sort key or filter, by default of an attribute (``subnet__name``)."""
    marker: Callable[[Item], object] = _pk
    """Returns the value that clients send as marker; ids are compared in any format."""
    no_marker: str = "Marker {marker} could not be found."

    def page(self, items: Iterable[Item], part: Part) -> list[Item]:
        """Return a page of the items. Only lookups that end in ``__in`` are supported in ``part.filters``.

        Raises InvalidInputError for an unknown marker.
        """
        every = list(items)
        for key in reversed([*part.sort, *self.order]):
            way = key if not part.backwards else replace(key, descending=not key.descending)
            every.sort(key=lambda item, key=way.key: _ordered(self.value(item, key)), reverse=way.descending)  # type: ignore[misc]
        if part.marker is not None:
            every = every[self._place(every, str(part.marker)) + 1 :]
        fit = [item for item in every if self._fits(item, part)][part.bounds]
        return fit[::-1] if part.backwards else fit

    def _fits(self, item: Item, part: Part) -> bool:
        return all(self.value(item, lookup.removesuffix("__in")) in requested for lookup, requested in part.filters)

    def _place(self, items: Sequence[Item], marker: str) -> int:
        requested = _normal(marker)
        for place, item in enumerate(items):
            if _normal(str(self.marker(item))) == requested:
                return place
        raise InvalidInputError(self.no_marker.format(marker=marker[:64]), field="marker")


def _ordered(value: Any) -> tuple[bool, Any]:
    """Return a sort key; empty values are last in ascending order."""
    return (value is None, "" if value is None else value)


def _normal(text: str) -> str:
    return str(read_id(text) or text)
