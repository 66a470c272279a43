"""Converts violations of database constraints, which remain possible when writers race, to errors for users."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, transaction

from provisioning.common.errors import ConflictError, NovellaError


@contextmanager
def conflict_as(message: str, kind: type[NovellaError] = ConflictError, *, field: str | None = None) -> Iterator[None]:
    """Run a block in a transaction. Raises ``kind`` with this message if a constraint is violated."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise kind(message, field=field) from error
