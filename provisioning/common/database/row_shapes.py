"""Shapes of the rows of a prepared query: model instances, tuples, single values or dictionaries.

Django determines for each use of a query which columns belong to which model, how they are converted, and how instances
are related. For a prepared query all of this is constant.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from django.core.exceptions import EmptyResultSet
from django.db.models import JSONField, QuerySet, prefetch_related_objects
from django.db.models.base import ModelState
from django.db.models.expressions import Col
from django.db.models.query import (
    FlatValuesListIterable,
    ModelIterable,
    NamedValuesListIterable,
    ValuesIterable,
    ValuesListIterable,
)

_CONVERTERS = "_converters_of_prepared"
"""Attribute of a connection: shape → converters of its columns, many of which are methods of the connection."""
Read = TypeVar("Read")
Row = list[Any]
Converter = tuple[int, Callable[[Any, Any, Any], Any], Any, bool]
"""Position of a value in the row, its converter, the expression, and whether None is not converted."""


def listed(queryset: QuerySet[Any, Read]) -> list[Read]:
    """Return the rows of an ordinary query: like ``list``, but faster for many rows.

    A related row is one object, however many instances refer to it (`_Records`).
    """
    compiler: Any = queryset.query.get_compiler(queryset.db)
    try:
        sql, parameters = compiler.as_sql()
    except EmptyResultSet:
        return []
    with compiler.connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        rows: list[Read] = of(queryset, compiler).rows(cursor.fetchall(), compiler.connection)
    if queryset._iterable_class is ModelIterable:
        _relate(rows, queryset)
    prefetch(rows, prefetched_by(queryset))
    return rows


def _relate(rows: Iterable[Any], queryset: Any) -> None:
    """Relate the rows of a related manager's query (``namespace.objects.all()``) to its object."""
    for field, known in queryset._known_related_objects.items():
        for row in rows:
            related = known.get(getattr(row, field.attname))
            if related is not None and not field.is_cached(row):
                setattr(row, field.name, related)


def prefetched_by(queryset: Any) -> tuple[Any, ...]:
    """Return the lookups that a query prefetches."""
    result: tuple[Any, ...] = queryset._prefetch_related_lookups
    return result


def prefetch(records: list[Any], lookups: tuple[Any, ...]) -> None:
    if lookups:
        prefetch_related_objects(records, *lookups)


def of(queryset: Any, compiler: Any) -> Shape:
    """Return the shape of a query that the compiler has compiled. Raises TypeError for an unsupported kind of rows."""
    kind, query = queryset._iterable_class, queryset.query
    columns = [each[0] for each in compiler.select[: compiler.col_count]]
    if kind is ModelIterable:
        return Shape(columns, _Records(compiler).read)
    if kind is FlatValuesListIterable:
        return Shape(columns, lambda rows: [row[0] for row in rows])
    if kind is ValuesListIterable:
        return Shape(columns, lambda rows: [tuple(row) for row in rows])
    names = [*(query.selected or (*query.extra_select, *query.values_select, *query.annotation_select))]
    if kind is NamedValuesListIterable:
        made = namedtuple("Row", names)  # type: ignore[misc] # the names come from the query
        return Shape(columns, lambda rows: [made._make(row) for row in rows])
    if kind is ValuesIterable:
        return Shape(columns, lambda rows: [dict(zip(names, row, strict=True)) for row in rows])
    raise TypeError(f"A prepared query cannot return rows as {kind.__name__} does.")


class Shape:
    """Converts the driver's values, and creates the objects that the query returns."""

    def __init__(self, columns: Sequence[Any], read: Callable[[Iterable[Row]], list[Any]]) -> None:
        self._columns, self._read = columns, read

    def rows(self, fetched: Iterable[Sequence[Any]], connection: Any) -> list[Any]:
        rows = [list(row[: len(self._columns)]) for row in fetched]  # followed by terms of ORDER BY
        for position, convert, expression, keeps_none in self._converters(connection):
            for row in rows:
                value = row[position]
                if value is not None or not keeps_none:
                    row[position] = convert(value, expression, connection)
        return self._read(rows)

    def _converters(self, connection: Any) -> list[Converter]:
        known = connection.__dict__.setdefault(_CONVERTERS, WeakKeyDictionary())
        if self not in known:
            known[self] = [
                (position, convert, column, type(column) is Col)
                for position, column in enumerate(self._columns)
                for convert in _converters_of(column, connection)
            ]
        result: list[Converter] = known[self]
        return result


def _converters_of(column: Any, connection: Any) -> Sequence[Callable[[Any, Any, Any], Any]]:
    field = column.output_field
    if type(column) is Col and type(field) is JSONField and field.decoder is None:
        return [_json]
    return [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]


def _json(value: str, _expression: Any, _connection: Any) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:  # NaN, which Python's encoder writes
        return json.loads(value)


class _Records:
    """Creates model instances from rows, with their selected related instances.

    Instances of the same row are one object, however many instances refer to it: most servers in a list share a few
    flavors, images and hosts.
    """

    def __init__(self, compiler: Any) -> None:
        select = compiler.select
        self._first = _Record(compiler.klass_info, select)
        self._annotations = [*(compiler.annotation_col_map or {}).items()]

    def read(self, rows: Iterable[Row]) -> list[Any]:
        shared: dict[tuple[_Record, Any], Any] = {}
        result = []
        for row in rows:
            record = self._first.made(row, shared)
            for name, position in self._annotations:
                setattr(record, name, row[position])
            result.append(record)
        return result


class _Record:
    """The columns of a model instance in a row."""

    def __init__(self, info: Any, select: Sequence[Any]) -> None:
        if info.get("from_parent"):
            raise TypeError("A prepared query cannot select records of a parent's table.")
        at = info["select_fields"]
        self._model = info["model"]
        self._names = [select[position][0].target.attname for position in at]
        self._start, self._end = at[0], at[-1] + 1
        self._key = at[self._names.index(self._model._meta.pk.attname)]
        self._related = [
            (_Record(each, select), each["local_setter"], each["remote_setter"], each["reverse"])
            for each in info.get("related_klass_infos", ())
        ]

    def made(self, row: Row, shared: dict[tuple[_Record, Any], Any]) -> Any:
        """Create an instance like ``Model.from_db``, but without processing each field."""
        record = self._model.__new__(self._model)
        state = record._state = ModelState()
        state.adding, state.db = False, "default"
        record.__dict__.update(zip(self._names, row[self._start : self._end], strict=True))
        for related, here, there, is_reverse in self._related:
            key = row[related._key]
            if key is None:
                here(record, None)
                continue
            other = None if is_reverse else shared.get((related, key))
            if other is None:
                other = related.made(row, shared)
                if not is_reverse:
                    shared[related, key] = other
            here(record, other)
            there(other, record)
        return record
