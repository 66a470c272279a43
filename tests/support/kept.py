"""Rows that very many tests begin with: the services write them once in a run, later tests get them as they were.

What comes again has ids and times of its own, so that nothing kept in memory for one test is met by another.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from django.apps import apps
from django.db import connection, models, transaction
from django.utils import timezone

T = TypeVar("T")
M = TypeVar("M", bound=models.Model)

_WRITES = re.compile(r'(?:INSERT (?:OR IGNORE )?INTO|UPDATE|DELETE FROM) "(\w+)"')


@dataclass(frozen=True)
class Table:
    """What one table held."""

    insert: str
    rows: list[tuple[Any, ...]]

    @classmethod
    def read(cls, model: type[models.Model], *, numbers: bool = False) -> Self:
        """Read all rows of a table; ``numbers``: with those that the database gives."""
        select, insert = _statements(model, numbers)
        with connection.cursor() as cursor:
            cursor.execute(select)
            return cls(insert, cursor.fetchall())

    def write(self, cursor: Any, rows: Iterable[Iterable[Any]]) -> None:
        """Write rows that were read, perhaps with other values."""
        cursor.executemany(self.insert, [[_stored(value) for value in row] for row in rows])


@dataclass(frozen=True)
class Again:
    """One time that kept rows come again: how much later, and with which ids instead of those they had."""

    later: timedelta = timedelta()
    ids: dict[str, str] = field(default_factory=dict)

    def value(self, kept: Any) -> Any:
        """Return a column's value for the one it had."""
        if isinstance(kept, str):
            return self.ids.get(kept, kept)
        if isinstance(kept, datetime):
            return kept + self.later
        if isinstance(kept, uuid.UUID):
            return uuid.UUID(self.ids.get(kept.hex, kept.hex))
        return kept

    def record(self, kept: M, **changes: Any) -> M:
        """Copy a record whose row has come again."""
        record = copy(kept)
        for each in record._meta.concrete_fields:
            setattr(record, each.attname, self.value(getattr(record, each.attname)))
        for name, value in changes.items():
            setattr(record, name, value)
        return record


class Kept:
    """The rows of some apps, which were empty before."""

    def __init__(self, *labels: str) -> None:
        configs = [apps.get_app_config(label) for label in labels]
        self.models = [model for config in configs for model in config.get_models(include_auto_created=True)]
        self.names = {model._meta.db_table for model in self.models}
        self.tables: list[Table] = []
        self.since = timezone.now()
        self.elsewhere: set[str] = set()
        """What the services wrote into other tables; then nothing is kept, and they write each time."""

    @property
    def fits(self) -> bool:
        """Whether nothing is in the tables."""
        if self.elsewhere:
            return False
        some = " OR ".join(f'EXISTS (SELECT 1 FROM "{name}")' for name in self.names)  # noqa: S608
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 WHERE {some}")
            return cursor.fetchone() is None

    def write(self, work: Callable[[], T]) -> T:
        """Let the services write, and keep the rows."""
        written: set[str] = set()

        def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            written.update(_WRITES.findall(sql))
            return execute(sql, params, many, context)

        with connection.execute_wrapper(note):
            made = work()
        self.since = timezone.now()
        self.elsewhere = written - self.names
        self.tables = [table for table in map(Table.read, self.models) if table.rows]
        return made

    def again(self) -> Again:
        """Write the rows again."""
        values = (_stored(value) for table in self.tables for row in table.rows for value in row)
        ids = {value: uuid.uuid4().hex for value in values if _is_random(value)}
        ids |= {f"br{key[:11]}": f"br{value[:11]}" for key, value in ids.items()}  # a bridge is named by its network
        again = Again(timezone.now() - self.since, ids)
        with transaction.atomic(savepoint=False), connection.cursor() as cursor:
            for table in self.tables:
                table.write(cursor, ([again.value(value) for value in row] for row in table.rows))
        return again


@functools.cache
def _statements(model: type[models.Model], numbers: bool) -> tuple[str, str]:
    """Return the SQL that reads a table and that writes a row."""
    columns = [each for each in model._meta.concrete_fields if numbers or not isinstance(each, models.AutoField)]
    names, table = ", ".join(f'"{each.column}"' for each in columns), model._meta.db_table
    marks = ", ".join(["%s"] * len(columns))
    insert = f'INSERT INTO "{table}" ({names}) VALUES ({marks})'  # noqa: S608 - names of our own tables
    return f'SELECT {names} FROM "{table}"', insert  # noqa: S608


def _stored(value: Any) -> Any:
    """Return what SQLite has of a value; PostgreSQL takes it as well."""
    if isinstance(value, uuid.UUID):
        return value.hex
    return value.isoformat(" ") if isinstance(value, datetime) else value


def _is_random(value: Any) -> bool:
    """Whether this is an id drawn at random, as SQLite has it."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}", value) is not None
