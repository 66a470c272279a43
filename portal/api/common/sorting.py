"""Sort keys in the query of a list, each with its direction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provisioning.common.errors import InvalidInputError
from provisioning.common.listing import Sort


@dataclass(frozen=True, slots=True)
class SortErrors:
    """An API's messages for an unknown sort key or direction; placeholders ``{key}``, ``{known}`` (valid keys) and
    ``{way}`` (direction).
    """

    unknown_key: str
    unknown_way: str
    way_field: str = "sort_dir"


def read_sort(
    keys: Sequence[str], ways: Sequence[str], known: Mapping[str, str], errors: SortErrors, *, usual: str = "asc"
) -> tuple[Sort, ...]:
    """Return the requested order. ``known`` maps keys to columns; ``usual`` is the default direction, for keys
    without one in ``ways``.

    Raises InvalidInputError.
    """
    found = []
    for place, key in enumerate(keys):
        way = ways[place] if place < len(ways) else usual
        named = {"key": key[:80], "way": way[:80], "known": ", ".join(known)}
        if key not in known:
            raise InvalidInputError(errors.unknown_key.format(**named), field="sort_key")
        if way not in {"asc", "desc"}:
            raise InvalidInputError(errors.unknown_way.format(**named), field=errors.way_field)
        found.append(Sort(known[key], descending=way == "desc"))
    return tuple(found)
