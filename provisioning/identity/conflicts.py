"""Races between writers: what the database's constraints refuse becomes a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, transaction

from provisioning.common.errors import ConflictError, NovellaError


@contextmanager
def told_as(message: str, kind: type[NovellaError] = ConflictError, *, field: str | None = None) -> Iterator[None]:
    """Run a change in a transaction; raise ``kind`` with this sentence when a constraint refuses it."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise kind(message, field=field) from error
