"""The doctor's checks over what tests leave behind: Django makes the SQL of a check's questions once in a run.

To make the SQL takes twenty times as long as to answer it, and most questions of the doctor have no answer: a check
finds nothing when there is no row that is wrong.  So the statements of a check which only met such answers are kept; as
long as the database has the same answers to them, the check would ask the same again and find as little.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import UserSettingsHolder, settings
from django.db import connection
from django.db.backends.sqlite3.base import FORMAT_QMARK_REGEX
from django.utils import timezone

from provisioning.doctor.examinations.examination import findings
from provisioning.doctor.finding import Finding

ELSEWHERE = {"backups", "certificate_authority", "keys"}
"""Checks that look at files and keys as well: always done in full."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


@dataclass(frozen=True)
class Question:
    """A statement with its parameters, and what the database answered."""

    sql: str
    params: tuple[Any, ...]
    answer: Sequence[tuple[Any, ...]]

    def ask(self, later: timedelta = timedelta()) -> Sequence[tuple[Any, ...]]:
        """Ask it again so much later: moments among the parameters are counted from now."""
        params = tuple(_moved(each, later) for each in self.params)
        if connection.vendor == "sqlite":
            connection.ensure_connection()
            return list(connection.connection.execute(self.for_sqlite, params))
        with connection.cursor() as cursor:
            cursor.execute(self.sql, params)
            return list(cursor.fetchall())

    @functools.cached_property
    def for_sqlite(self) -> str:
        """The statement as the driver of SQLite has it: hundreds are asked at the end of each test."""
        return FORMAT_QMARK_REGEX.sub("?", self.sql).replace("%%", "%")


@dataclass(frozen=True)
class Look:
    """All that a check asked when it found nothing."""

    at: datetime
    questions: Sequence[Question]

    def holds(self) -> bool:
        """Whether the database answers as it did then."""
        later = timezone.now() - self.at
        return all(question.ask(later) == question.answer for question in self.questions)


MOST_TRIES = 5
"""After so many looks that met rows a check is known for one that reads what is well, too."""
Kind = tuple[str, str, frozenset[tuple[str, str]]]
"""The kind of database, the name of a check, and the settings that a test has changed."""
_looks: dict[Kind, Look] = {}
_tries: Counter[Kind] = Counter()


def examined(names: Sequence[str]) -> Iterator[Finding]:
    """Yield what these checks find."""
    changed = _changed_settings()
    for name in names:
        kind = connection.vendor, name, changed
        look = _looks.get(kind)
        if look is None or not look.holds():
            yield from _in_full(name, kind)


def _changed_settings() -> frozenset[tuple[str, str]]:
    result: dict[str, str] = {}
    holder = settings._wrapped
    while isinstance(holder, UserSettingsHolder):
        result |= {name: repr(value) for name, value in vars(holder).items() if name.isupper() and name not in result}
        holder = holder.default_settings
    return frozenset(result.items())


def _in_full(name: str, kind: Kind) -> list[Finding]:
    """Do a check, and keep its questions when their answers may come again."""
    at, requested = timezone.now(), list[tuple[str, tuple[Any, ...]]]()
    with connection.execute_wrapper(_noting(requested)):
        result = list(findings([name]))
    if result or name in ELSEWHERE or _tries[kind] > MOST_TRIES or not all(_only_reads(sql) for sql, _ in requested):
        return result
    _tries[kind] += 1
    questions = [Question(sql, params, Question(sql, params, ()).ask()) for sql, params in requested]
    if not any(row for question in questions for row in question.answer if row != (1,)):
        _looks[kind], _tries[kind] = Look(at, questions), 0
    return result


def _noting(requested: list[tuple[str, tuple[Any, ...]]]) -> Callable[..., Any]:
    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        requested.append((sql, tuple(params or ())))
        return execute(sql, params, many, context)

    return note


def _only_reads(sql: str) -> bool:
    return sql.startswith("SELECT") and " FOR " not in sql


def _moved(value: Any, later: timedelta) -> Any:
    if isinstance(value, datetime):
        return value + later
    if isinstance(value, str) and _MOMENT.fullmatch(value):  # as SQLite gets it
        return str((datetime.fromisoformat(value).replace(tzinfo=UTC) + later).replace(tzinfo=None))
    return value
