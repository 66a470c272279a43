"""A copy of all records, to be put back later as a restore from a backup puts it back."""

from __future__ import annotations

import functools

from django.apps import apps
from django.db import connection, transaction
from django.db.models import Model
from django_q.models import OrmQ

from tests.support.kept import Table


@functools.cache
def _models() -> list[type[Model]]:
    result = apps.get_models(include_auto_created=True)
    ours = [model for model in result if model.__module__.startswith("provisioning.") or model is OrmQ]
    return [model for model in ours if model._meta.managed and not model._meta.proxy]


class Copy:
    """All rows as they are when it is made."""

    def __init__(self) -> None:
        self._tables = [Table.read(model, numbers=True) for model in _models()]

    @transaction.atomic
    def put_back(self) -> None:
        """Let the records be as they were; foreign keys are looked at when the transaction ends."""
        with connection.cursor() as cursor:
            for model in _models():
                cursor.execute(f'DELETE FROM "{model._meta.db_table}"')  # noqa: S608 - names of our own tables
            for table in self._tables:
                table.write(cursor, table.rows)
