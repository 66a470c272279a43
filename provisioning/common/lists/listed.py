"""Pages of lists without a table: filtered, sorted and cut as ``listing`` does for rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar

from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Part, Sort
from provisioning.common.values.ids import read_id

Item = TypeVar("Item")


def _attribute(item: Any, lookup: str) -> Any:
    return attrgetter(lookup.replace("__", "."))(item)


def _pk(item: Any) -> object:
    return item.pk


@dataclass(frozen=True, kw_only=True)
class ItemListing(Generic[Item]):
    """Declares how lists of items are filtered, sorted and cut."""

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
        fit = [item for item in every if self._fits(item, part)][: part.limit]
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
