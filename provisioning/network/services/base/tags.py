"""Tags of records."""

from collections.abc import Collection
from typing import Any

from django.db import transaction

from provisioning.common.errors import InvalidInputError
from provisioning.network.errors import TagNotFoundError
from provisioning.network.models import Tag
from provisioning.network.services.base.records import lock, touch

LONGEST = 255
MOST = 50
"""Limit of tags on one record."""


def set_tags(row: Any, names: Collection[str]) -> list[str]:
    """Replace the tags of a record; return them in order.  Raises InvalidInputError."""
    return _write(row, names, keep=False)


def add_tags(row: Any, names: Collection[str]) -> list[str]:
    """Add tags to a record; return all its tags in order.  Raises InvalidInputError."""
    return _write(row, names, keep=True)


@transaction.atomic
def remove_tag(row: Any, name: str) -> None:
    """Remove a tag from a record. Raises TagNotFoundError if it does not have the tag."""
    locked = lock(row)
    tag = next((tag for tag in Tag.objects.filter(resource_id=row.pk) if tag.tag == name), None)
    if tag is None:
        raise TagNotFoundError(f"Tag {name[:64]} could not be found.")
    tag.delete()
    touch(locked)


@transaction.atomic
def _write(row: Any, names: Collection[str], *, keep: bool) -> list[str]:
    for name in names:
        if not name.strip() or len(name) > LONGEST or {*"/,\0"} & {*name}:
            reason = f"{name[:64]!r} is empty, has more than {LONGEST} characters, a comma, a slash or a NUL"
            raise InvalidInputError(f"Invalid input for tags. Reason: {reason}.", field="tags")
    locked = lock(row)
    there = set(Tag.objects.filter(resource_id=row.pk).values_list("tag", flat=True))
    tags = set(names) | (there if keep else set())
    if len(tags) > MOST:
        raise InvalidInputError(f"The number of tags exceed the per-resource limit of {MOST}", field="tags")
    if tags != there:
        Tag.objects.filter(resource_id=row.pk, tag__in=there - tags).delete()
        Tag.objects.bulk_create(Tag(resource_id=row.pk, tag=name) for name in sorted(tags - there))
        touch(locked)
    return sorted(tags)
