"""Tags of records, and filters by tags."""

import uuid
from collections.abc import Callable, Iterable, Mapping

from django.db.models import Exists, OuterRef, Q

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.network.models import Tag


def tags_of(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Return the tags of many records, each in order; one query, or none without ids."""
    keys = list(ids)
    result: dict[uuid.UUID, list[str]] = {}
    for key, tag in _TAGS(ids=keys) if keys else ():
        result.setdefault(key, []).append(tag)
    return result


_TAGS = Prepared(
    lambda ids: Tag.objects.filter(Among("resource_id", ids)).order_by("tag").values_list("resource_id", "tag"),
    ids=Ids(),
)


def _has(*names: str) -> Q:
    return Q(Exists(Tag.objects.filter(resource_id=OuterRef("pk"), tag__in=names)))


def _named(values: list[str]) -> list[str]:
    return list(dict.fromkeys(name for value in values for name in value.split(",")))


def _all(values: list[str]) -> Q:
    result = Q()
    for name in _named(values)[:MOST_FILTERED]:
        result &= _has(name)
    return result


def _any(values: list[str]) -> Q:
    return _has(*_named(values))


MOST_FILTERED = 50
"""Limit of the tags in one filter, equal to the limit of a record's tags."""
FILTERS: Mapping[str, Callable[[list[str]], Q]] = {
    "tags": _all,
    "tags-any": _any,
    "not-tags": lambda values: ~_all(values),
    "not-tags-any": lambda values: ~_any(values),
}
"""Filter → the condition for its values, which are comma-separated tags."""
