"""Addresses of pages, cached: a page has a hundred links of the frame, and a list several in each row."""

import uuid
from functools import cache

from django.urls import reverse

_ANY = uuid.UUID(int=0)


def address(name: str, *ids: object) -> str:
    """Return the address of a page, as ``reverse`` does."""
    if not ids:
        return _kept(name)
    if len(ids) == 1 and isinstance(ids[0], uuid.UUID):
        return _kept(name, _ANY).replace(str(_ANY), str(ids[0]))
    return reverse(name, args=ids)


@cache
def _kept(name: str, *ids: uuid.UUID) -> str:
    return reverse(name, args=ids)
