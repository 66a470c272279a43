"""Product functions whose statements depend on the database, and the tests at landing that run each on PostgreSQL.

``tests/conftest.py`` loads this module as a plugin.  Such a statement locks rows, resolves a conflict, looks into JSON
or is written by hand.  ``tests/postgresql.txt`` names for each of these functions a test whose variant for PostgreSQL
runs it and is not deep.  ``tests/setup/test_statements.py`` compares the file with the product; the variant fails when
it no longer runs what the file says.

``pytest -n 0 --record-postgresql -m "postgresql and not deep" PATHS`` adds what the tests of these paths run.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet
from django.db.models.fields.json import HasKeyLookup, KeyTransform

from provisioning.common.database.prepared import Prepared, PreparedUpdate, _Statement
from tests.support.cast import _make_people
from tests.support.clouds import Cloud
from tests.support.examined import _in_full
from tests.support.scripted_agent import ScriptedAgent

CHECKOUT = Path(__file__).resolve().parents[2]
FILE = CHECKOUT / "tests" / "postgresql.txt"
PRODUCT = ("provisioning", "portal")
FOLDERS = tuple(f"{CHECKOUT / name}/" for name in PRODUCT)
STATEMENTS = (
    ".select_for_update(",
    "ignore_conflicts=True",
    "update_conflicts=True",
    ".update_or_create(",
    "__has_key",
    "KeyTextTransform(",
    ".cursor()",
)
"""How the source of such a statement looks."""
_OPENING = re.compile(r" *(?:async def|def|class) (\w+)")
ADVICE = (
    'give a short test that runs it the mark both_databases("locks"), ("sql") or ("constraints"), then run'
    ' pytest -n 0 --record-postgresql -m "postgresql and not deep" with the file of that test.'
)


def several(functions: set[str]) -> str:
    return ", ".join(sorted(functions))


# ----- the product and the file ---------------------------------------------------------------------------------------


def makes_one(text: str) -> bool:
    return any(words in text for words in STATEMENTS)


def functions() -> set[str]:
    """Return the product's functions that make such statements, as ``path::name``."""
    result = set()
    for folder in PRODUCT:
        for path in (CHECKOUT / folder).rglob("*.py"):
            text = path.read_text() if path.parent.name != "migrations" else ""
            if makes_one(text):
                result |= {f"{path.relative_to(CHECKOUT)}::{name}" for name in _making(text)}
    return result


def _making(text: str) -> Iterator[str]:
    """Yield the functions and methods of a module that make such statements; one inside another counts as that one."""
    around: list[tuple[int, str, bool]] = []  # indentation, name, whether it is a class
    for line in text.splitlines():
        body = line.lstrip()
        if not body or body[0] in ")]}#":
            continue
        indentation = len(line) - len(body)
        while around and around[-1][0] >= indentation:
            around.pop()
        if opening := _OPENING.match(line):
            around.append((indentation, opening[1], body.startswith("class")))
        elif makes_one(line) and not all(is_class for *_, is_class in around):
            inner = next(number for number, (*_, is_class) in enumerate(around) if not is_class)
            yield ".".join(name for _, name, _ in around[: inner + 1])


def listed() -> dict[str, set[str]]:
    """Return the functions that the file names, by the test that runs them on PostgreSQL."""
    result: dict[str, set[str]] = {}
    rows = set[str]()
    for line in FILE.read_text().splitlines():
        if line.startswith("    "):
            rows.add(line.strip())
        elif line and not line.startswith("#"):
            rows = result[line] = set()
    return result


# ----- noting ---------------------------------------------------------------------------------------------------------

_prepared: WeakKeyDictionary[_Statement, set[str]] = WeakKeyDictionary()
"""The functions by which statements that are prepared once were made."""
RECORDED = {make.__code__ for make in (_make_people, Cloud._make.__func__, ScriptedAgent._make.__func__, _in_full)}  # type: ignore[attr-defined]
"""Functions whose rows or answers are kept: they run in the first test of a process alone."""
_noted: set[str] | None = None
"""The functions that made such a statement since the test began; None while nobody asks."""
_preparing = threading.local()
"""``noted``: those that made the statement which this thread prepares."""


def _notes() -> set[str] | None:
    """Return where this thread notes functions."""
    return getattr(_preparing, "noted", _noted)


def _note(*, direct: bool = False) -> None:
    """Note the innermost function of the product; ``direct``: only when it is the caller."""
    frame: FrameType | None = sys._getframe(2)
    noted = _notes()
    while noted is not None and frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(FOLDERS):
            if not _is_kept(frame):
                noted.add(f"{code.co_filename[len(str(CHECKOUT)) + 1 :]}::{code.co_qualname.partition('.<')[0]}")
            return
        frame = None if direct else frame.f_back


def _is_kept(frame: FrameType | None) -> bool:
    """Whether the rows come from a kept copy in the next test."""
    while frame is not None and frame.f_code not in RECORDED:
        frame = frame.f_back
    return frame is not None


def _prepare(kind: type[Any]) -> None:
    """Note what prepared a statement each time that it is used."""
    real: Callable[..., Any] = kind._statement

    def prepare(self: Any, *args: Any) -> Any:
        before = vars(_preparing).copy()
        noted = _preparing.noted = set[str]()
        try:
            made = real(self, *args)
        finally:
            vars(_preparing).clear()
            vars(_preparing).update(before)
        _prepared[made] = noted
        return made

    kind._statement = prepare


def _use_prepared() -> None:
    real = _Statement.bound

    def bound(self: Any, *args: Any) -> Any:
        noted = _notes()
        if noted is not None:
            noted.update(_prepared.get(self, ()))
        return real(self, *args)

    _Statement.bound = bound  # type: ignore[method-assign]


def _watched(owner: Any, method: str, *options: str, direct: bool = False) -> None:
    """Note calls of the method; where there are options, those that set one."""
    real: Callable[..., Any] = getattr(owner, method)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _notes() is not None and (not options or any(kwargs.get(option) for option in options)):
            _note(direct=direct)
        return real(self, *args, **kwargs)

    setattr(owner, method, call)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--tier") == "quick":
        return  # which runs nothing on PostgreSQL
    _prepare(Prepared)
    _prepare(PreparedUpdate)
    _use_prepared()
    _watched(QuerySet, "select_for_update")
    _watched(QuerySet, "update_or_create")
    _watched(QuerySet, "bulk_create", "ignore_conflicts", "update_conflicts")
    _watched(HasKeyLookup, "__init__")
    _watched(KeyTransform, "__init__")
    _watched(BaseDatabaseWrapper, "cursor", direct=True)


# ----- judging --------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-postgresql", action="store_true", help="add what the tests run to tests/postgresql.txt")


class Recording:
    """The functions that this session runs on PostgreSQL, and those that the file names."""

    def __init__(self, *, writes: bool) -> None:
        self.writes = writes
        self.tests = listed()
        self.ran: dict[str, set[str]] = defaultdict(set)

    def write(self) -> None:
        """Keep the rows that are right, and give each function without one to the test that runs most of these."""
        there = functions()
        kept = {test: rows & self.ran.get(test, rows) & there for test, rows in self.tests.items()}
        ran = {test: rows & there for test, rows in self.ran.items()}
        missing = set().union(*ran.values()) - set().union(*kept.values())
        while missing:
            best = max(sorted(ran), key=lambda test: len(ran[test] & missing))
            kept.setdefault(best, set()).update(ran[best] & missing)
            missing -= ran[best]
        lines = [line for line in FILE.read_text().splitlines() if line.startswith("#")]
        for test, rows in sorted(kept.items()):
            lines += [test, *(f"    {each}" for each in sorted(rows))] if rows else []
        FILE.write_text("\n".join(lines) + "\n")


RECORDING = pytest.StashKey[Recording]()


def _recording(config: pytest.Config) -> Recording:
    if RECORDING not in config.stash:
        config.stash[RECORDING] = Recording(writes=config.getoption("--record-postgresql"))
    return config.stash[RECORDING]


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    _refuse_deep(items)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _refuse_deep(items)


def _refuse_deep(items: Sequence[pytest.Item]) -> None:
    """Refuse a deep test that the file names; when recording, forget it."""
    for item in items:
        recording = _recording(item.config)
        if item.nodeid not in recording.tests or not item.get_closest_marker("deep"):
            continue
        if not recording.writes:
            raise pytest.UsageError(f"tests/postgresql.txt names {item.nodeid}, which is deep: {ADVICE}")
        del recording.tests[item.nodeid]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what a variant for PostgreSQL runs at landing."""
    global _noted
    requested = item.get_closest_marker("postgresql") and not item.get_closest_marker("deep")
    _noted = set() if requested else None
    try:
        return (yield)
    finally:
        _noted = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    done = yield
    if _noted is not None:
        recording = _recording(item.config)
        recording.ran[item.nodeid] |= _noted
        lost = recording.tests.get(item.nodeid, set()) - _noted
        if lost and not recording.writes:
            pytest.fail(f"By tests/postgresql.txt this test runs {several(lost)}, and it does not: {ADVICE}", False)
    return done


def pytest_sessionfinish(session: pytest.Session) -> None:
    recording = session.config.stash.get(RECORDING, None)
    if recording is not None and recording.writes:
        recording.write()
