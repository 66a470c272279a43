"""Queries whose SQL is compiled once.

Django compiles the SQL of a query at each use, which takes longer than its execution on SQLite. Queries of every
request or launch are written as `Prepared`: Django compiles the SQL at the first use, and later uses only bind values.
PostgreSQL plans it once for each connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import AutoField, Field, Model, QuerySet, Value
from django.db.models.sql import DeleteQuery, UpdateQuery

from provisioning.common.database import row_shapes
from provisioning.common.database.repeated import Repeated

Row = TypeVar("Row")


class _Parameter(Value):
    """Placeholder of a value in a prepared query."""

    def __init__(self, name: str, output_field: Field[Any, Any]) -> None:
        super().__init__(name, output_field=output_field)

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]

    def bound(self, values: Mapping[str, Any], connection: Any) -> Any:
        value = values[self.value]
        return None if value is None else self.output_field.get_db_prep_value(value, connection)


class Prepared(Generic[Row]):
    """A query with named parameters::

        USERS = Prepared(lambda name: User.objects.filter(name=name), name=CharField())
        (user,) = USERS(name="alice")

    ``make`` gets a placeholder for each parameter, for use in filters where a value of the parameter's field is
    allowed. It returns a queryset of model instances, or of ``values`` or ``values_list``. The queryset may select and
    prefetch relations, lock rows, and be sliced to a constant number. Values must not be None, because ``IS NULL`` is
    another query.
    """

    def __init__(self, make: Callable[..., QuerySet[Any, Row]], **parameters: Field[Any, Any]) -> None:
        self._make, self._parameters = make, parameters
        self._statements: dict[str, _Statement] = {}

    def __call__(self, **values: Any) -> list[Row]:
        """Return the rows for these values, by the names of the parameters."""
        connection = connections[DEFAULT_DB_ALIAS]
        statement = self._known(connection)
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.bound(values, connection))
            fetched = cursor.fetchall()
        rows: list[Row] = statement.shape.rows(fetched, connection) if fetched else []
        row_shapes.prefetch(rows, statement.prefetched)
        return rows

    def first(self, **values: Any) -> Row | None:
        """Return the first row or None; the queryset should be sliced to one row."""
        rows = self(**values)
        return rows[0] if rows else None

    def raw(self, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows with the database driver's types."""
        connection = connections[DEFAULT_DB_ALIAS]
        statement = self._known(connection)
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.bound(values, connection))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def _known(self, connection: Any) -> _Statement:
        statement = self._statements.get(connection.vendor)
        if statement is None:
            statement = self._statements[connection.vendor] = self._statement(connection)
        return statement

    def _statement(self, connection: Any) -> _Statement:
        queryset = self._make(**{name: _Parameter(name, field) for name, field in self._parameters.items()})
        compiler = queryset.query.get_compiler(DEFAULT_DB_ALIAS)
        sql, parameters = compiler.as_sql()
        shape, prefetched = row_shapes.of(queryset, compiler), row_shapes.prefetched_by(queryset)
        return _Statement(Repeated(sql), tuple(parameters), shape, prefetched)


class PreparedUpdate:
    """An UPDATE with named parameters; ``make`` returns the rows and the new values of their columns, which may be
    None::

        RENAME = PreparedUpdate(lambda id, name: (User.objects.filter(id=id), {"name": name}), id=…, name=…)
    """

    def __init__(
        self, make: Callable[..., tuple[QuerySet[Any, Any], Mapping[str, Any]]], **parameters: Field[Any, Any]
    ) -> None:
        self._make, self._parameters = make, parameters
        self._statements: dict[str, _Statement] = {}

    def __call__(self, **values: Any) -> int:
        """Return the number of changed rows."""
        connection = connections[DEFAULT_DB_ALIAS]
        statement = self._statements.get(connection.vendor)
        if statement is None:
            statement = self._statements[connection.vendor] = self._statement()
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.bound(values, connection))
            changed: int = cursor.rowcount
            return changed

    def _statement(self) -> _Statement:
        queryset, columns = self._make(**{name: _Parameter(name, field) for name, field in self._parameters.items()})
        sql, parameters = self._written(queryset, columns).get_compiler(DEFAULT_DB_ALIAS).as_sql()
        return _Statement(Repeated(sql), tuple(parameters))

    def _written(self, rows: QuerySet[Any, Any], columns: Mapping[str, Any]) -> Any:
        """Return the query that writes to the rows."""
        query: Any = rows.query.chain(UpdateQuery)
        query.add_update_values(columns)
        return query


class PreparedUpdateReturning(Prepared[Row]):
    """An UPDATE that returns the new values of columns; ``make`` returns a ``values_list`` and the new values::

    COUNT = PreparedUpdateReturning(
        lambda id: (User.objects.filter(id=id).values_list("logins"), {"logins": F("logins") + 1}), id=…
    )
    """

    def __init__(
        self, make: Callable[..., tuple[QuerySet[Any, Row], Mapping[str, Any]]], **parameters: Field[Any, Any]
    ) -> None:
        super().__init__(lambda **values: make(**values)[0], **parameters)
        self._update = make

    def _statement(self, connection: Any) -> _Statement:
        rows, columns = self._update(**{name: _Parameter(name, field) for name, field in self._parameters.items()})
        returning, shape = _returning(rows, connection)
        query: Any = rows.query.chain(UpdateQuery)
        query.clear_select_clause()
        query.add_update_values(columns)
        sql, parameters = query.get_compiler(DEFAULT_DB_ALIAS).as_sql()
        return _Statement(Repeated(sql + returning), tuple(parameters), shape)


class PreparedDelete(PreparedUpdate):
    """A DELETE with named parameters, for rows without relations that Django would cascade to::

    FORGET = PreparedDelete(lambda id: User.objects.filter(id=id), id=…)
    """

    def __init__(self, make: Callable[..., QuerySet[Any, Any]], **parameters: Field[Any, Any]) -> None:
        super().__init__(lambda **values: (make(**values), {}), **parameters)

    def _written(self, rows: QuerySet[Any, Any], _columns: Mapping[str, Any]) -> Any:
        return rows.query.chain(DeleteQuery)


class PreparedDeleteReturning(Prepared[Row]):
    """A DELETE that returns the columns of the ``values_list`` of ``make``; otherwise like ``PreparedDelete``::

    FORGET = PreparedDeleteReturning(lambda id: User.objects.filter(id=id).values_list("name"), id=…)
    """

    def _statement(self, connection: Any) -> _Statement:
        queryset = self._make(**{name: _Parameter(name, field) for name, field in self._parameters.items()})
        sql, parameters = queryset.query.chain(DeleteQuery).get_compiler(DEFAULT_DB_ALIAS).as_sql()
        returning, shape = _returning(queryset, connection)
        return _Statement(Repeated(sql + returning), tuple(parameters), shape)


class PreparedInsert:
    """An INSERT of rows of a model::

        ADD = PreparedInsert(Event)
        ADD([Event(topic=…), Event(topic=…)])

    Like ``bulk_create``, but the instances do not get their generated keys, and values cannot be expressions.

    ``unique``: the columns of a unique constraint. A row that conflicts with an existing one updates the columns
    ``update`` of that one, or is ignored without such columns. ``returning``: the columns to return.
    """

    MOST = 20
    """Maximum number of rows in a statement; more rows are inserted with several statements."""

    def __init__(
        self,
        model: type[Model],
        *,
        unique: Sequence[str] = (),
        update: Sequence[str] = (),
        returning: Sequence[str] = (),
    ) -> None:
        self._model, self._unique, self._update, self._returning = model, unique, update, returning
        self._statements: dict[tuple[str, int], _Statement] = {}

    def __call__(self, rows: Iterable[Model]) -> list[tuple[Any, ...]]:
        """Insert the rows; return the columns ``returning`` of those that were inserted or updated."""
        fresh = list(rows)
        if len(fresh) <= self.MOST:
            return self._insert(fresh) if fresh else []
        with transaction.atomic(savepoint=False):
            parts = [fresh[first : first + self.MOST] for first in range(0, len(fresh), self.MOST)]
            return [row for part in parts for row in self._insert(part)]

    def _insert(self, fresh: list[Model]) -> list[tuple[Any, ...]]:
        connection = connections[DEFAULT_DB_ALIAS]
        statement = self._statements.get((connection.vendor, len(fresh)))
        if statement is None:
            statement = self._statements[connection.vendor, len(fresh)] = self._statement(connection, len(fresh))
        values = [
            field.get_db_prep_save(field.pre_save(row, add=True), connection)
            for row in fresh
            for field in self._columns()
        ]
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, values)
            fetched = cursor.fetchall() if self._returning else []
        for row in fresh:
            row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
        rows: list[tuple[Any, ...]] = statement.shape.rows(fetched, connection) if fetched else []
        return rows

    def _columns(self) -> list[Field[Any, Any]]:
        return [each for each in self._model._meta.local_concrete_fields if not isinstance(each, AutoField)]

    def _statement(self, connection: Any, rows: int) -> _Statement:
        quote, columns = connection.ops.quote_name, self._columns()
        names = ", ".join(quote(each.column) for each in columns)
        row = f"({', '.join(['%s'] * len(columns))})"
        insert = f"INSERT INTO {quote(self._model._meta.db_table)} ({names}) VALUES {', '.join([row] * rows)}"  # noqa: S608 - names of columns
        returned = self._model._base_manager.values_list(*self._returning)
        returning, shape = _returning(returned, connection) if self._returning else ("", None)
        return _Statement(Repeated(insert + self._on_conflict(quote) + returning), (), shape)

    def _on_conflict(self, quote: Callable[[str], str]) -> str:
        if not self._unique:
            return ""
        columns = {each.name: quote(str(each.column)) for each in self._model._meta.local_concrete_fields}
        unique, update = ([columns[name] for name in names] for names in (self._unique, self._update))
        change = ", ".join(f"{name} = EXCLUDED.{name}" for name in update)
        return f" ON CONFLICT ({', '.join(unique)}) DO {f'UPDATE SET {change}' if change else 'NOTHING'}"


def _returning(queryset: QuerySet[Any, Any], connection: Any) -> tuple[str, row_shapes.Shape]:
    """Return the clause that returns the columns of a ``values_list``, and the shape of its rows."""
    compiler: Any = queryset.query.get_compiler(DEFAULT_DB_ALIAS)
    compiler.as_sql()
    names = [connection.ops.quote_name(each[0].target.column) for each in compiler.select]
    return f" RETURNING {', '.join(names)}", row_shapes.of(queryset, compiler)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _Statement:
    """A query with its SQL for one kind of database."""

    sql: Repeated
    parameters: tuple[Any, ...]
    shape: Any = None
    """The shape of the rows; None: the statement returns no rows."""
    prefetched: tuple[Any, ...] = ()

    def bound(self, values: Mapping[str, Any], connection: Any) -> tuple[Any, ...]:
        return tuple(
            each.bound(values, connection) if isinstance(each, _Parameter) else each for each in self.parameters
        )
