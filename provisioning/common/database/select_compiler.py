"""Two optimizations of Django's SELECT compiler; the result is the same."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from django.db.models import F
from django.db.models.expressions import Col, OrderBy

_CONVERTERS = "_converters_of_columns"
"""Attribute of a connection: id of a field → the field, and the converters of its values, many of which are methods of
the connection.
"""


class QuickSelect:
    """Mixin in front of Django's SQLCompiler.

    Django compares every term of ORDER BY with every selected expression, and hashes all of them by their constructor
    arguments. A name can only match an alias, so aliases are checked first. Django also collects the converters of each
    selected column at each use.
    """

    connection: Any
    query: Any
    select: Any

    def _order_by_pairs(self) -> Any:
        pairs: Any = super()._order_by_pairs  # type: ignore[misc] # Django's
        select = self.select
        if not select or self.query.combinator or not _is_apart(self._ordering(), {alias for *_, alias in select}):
            return list(pairs())
        self.select = None
        try:
            return list(pairs())
        finally:
            self.select = select

    def _ordering(self) -> Iterable[Any]:
        query = self.query
        if query.extra_order_by:
            return tuple(query.extra_order_by)
        if query.model is None:  # a condition without a table
            return tuple(query.order_by)
        return tuple(query.order_by or (query.get_meta().ordering if query.default_ordering else ()))

    def get_converters(self, expressions: Iterable[Any]) -> dict[int, Any]:
        """Return position → converters and expression; uses Django's method unless all are plain columns."""
        columns = list(expressions)
        if not all(type(each) is Col and each.target is each.output_field for each in columns):
            result: dict[int, Any] = super().get_converters(columns)  # type: ignore[misc] # Django's
            return result
        known = getattr(self.connection, _CONVERTERS, None)
        if known is None:
            known = {}
            setattr(self.connection, _CONVERTERS, known)
        converters = {}
        for position, column in enumerate(columns):
            field = column.target
            if id(field) not in known:
                of_backend = self.connection.ops.get_db_converters(column)
                known[id(field)] = field, of_backend + column.get_db_converters(self.connection)
            if known[id(field)][1]:
                converters[position] = known[id(field)][1], column
        return converters


class QuickOperations:
    """Mixin in front of the operations of a Django database backend."""

    def compiler(self, name: str) -> Any:
        """Return the compiler with this name; the SELECT compiler has the optimizations."""
        found: Any = super().compiler(name)  # type: ignore[misc] # Django's
        return _quick(found) if name == "SQLCompiler" else found


@cache
def _quick(compiler: Any) -> Any:
    return type("QuickCompiler", (QuickSelect, compiler), {})


def _is_apart(ordering: Iterable[Any], aliases: set[str | None]) -> bool:
    """Whether the terms cannot refer to a selected alias."""
    for term in ordering:
        source = term.expression if isinstance(term, OrderBy) else term
        name: Any = source.name if type(source) is F else source  # type: ignore[attr-defined] # missing in the stubs
        if not isinstance(name, str) or name.lstrip("-+") in aliases:
            return False
    return True
