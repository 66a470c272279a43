"""Tables whose rows take milliseconds each: one test goes through all of them, and reports all that fail."""

from __future__ import annotations

import contextlib
import functools
import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.models import Model

from portal.api.common.requests import Schema, validate
from provisioning.common.errors import InvalidInputError
from tests.support.cast import People, Person
from tests.support.clouds import Cloud

T = TypeVar("T")
COPIED = (Cloud, Model, People, Person)
"""Fixtures of which each row gets a copy."""


def check_each(rows: Iterable[T], check: Callable[[T], None], name: Callable[[T], object] = repr) -> None:
    """Call ``check`` for each row, and fail with the name and the reason of each row that fails."""
    failed, count = [], 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - counted for the case that there is none
        try:
            check(row)
        except Exception as error:  # noqa: BLE001 - the other rows are to be checked as well
            failed.append(f"{name(row)}: {type(error).__name__}: {error}")
    assert count, "the table is empty"
    assert not failed, f"{len(failed)} of {count}:\n" + "\n".join(failed)


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test once for each row, as ``pytest.mark.parametrize`` does, but within one test and one set-up.

    What a row writes to the database is undone before the next one, and each row gets its own copies of records, of the
    cast and of the cloud. This is not for tests that commit, or that change settings, files or other objects.
    """
    words = tuple(word.strip() for word in names.split(",")) if isinstance(names, str) else names
    table = [(row,) if len(words) == 1 else tuple(row) for row in rows]

    def fold(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def folded(**fixtures: Any) -> None:
            objects = pickle.dumps({name: made for name, made in fixtures.items() if isinstance(made, COPIED)})

            def check(row: tuple[Any, ...]) -> None:
                copies = pickle.loads(objects)  # noqa: S301 - our own
                with _undone():
                    test(**fixtures | copies, **dict(zip(words, row, strict=True)))

            check_each(table, check, _short)

        left = [each for each in inspect.signature(test).parameters.values() if each.name not in words]
        folded.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return folded

    return fold


def _short(row: tuple[Any, ...]) -> str:
    text = repr(row)
    return text if len(text) <= 300 else f"{text[:300]}…"


@contextlib.contextmanager
def _undone() -> Iterator[None]:
    """Undo what is written, in a test that has a transaction."""
    if not connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        try:
            yield
        finally:
            transaction.set_rollback(True)


def taken(schema: Schema, bodies: Iterable[Any]) -> list[Any]:
    """Return the bodies that the schema does not refuse."""
    table = list(bodies)
    assert table, "the table is empty"
    return [body for body in table if not _is_refused(body, schema)]


def _is_refused(body: Any, schema: Schema) -> bool:
    try:
        validate(body, schema)
    except InvalidInputError:
        return True
    return False
