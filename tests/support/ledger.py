"""The ledger of the suite: the processor-seconds of each test.

``tests/conftest.py`` loads this module as a plugin; ``pytest --ledger FILE`` writes a row for each test to FILE, as
JSON lines: its id, its marks, its processor-seconds and the seconds that it took.

A test's cost is the processor time of its set-up, call and teardown, in its worker and in all processes that descend
from it, those that go on running included; not that of fixtures of the session, which are a row of their own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TICK = os.sysconf("SC_CLK_TCK")
ROWS = "ledger"
"""Name of the property of a report that has the rows."""


@dataclass(frozen=True)
class Reading:
    """Processor-seconds and seconds since some moment."""

    cost: float
    seconds: float

    @classmethod
    def now(cls) -> Reading:
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return cls(own + sum(_of_descendants(os.getpid())), time.monotonic())

    def __sub__(self, other: Reading) -> Reading:
        return Reading(self.cost - other.cost, self.seconds - other.seconds)

    def __add__(self, other: Reading) -> Reading:
        return Reading(self.cost + other.cost, self.seconds + other.seconds)


def _of_descendants(pid: int) -> Iterator[float]:
    """Yield the processor-seconds of each running descendant and of its children that have ended."""
    for child in _children(pid):
        try:
            said = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended, and counts with its parent
            continue
        yield sum(map(int, said[11:15])) / TICK
        yield from _of_descendants(child)


def _children(pid: int) -> list[str]:
    found: list[str] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += (task / "children").read_text().split()
    except OSError:
        return []
    return found


class Meter:
    """Measures the tests of one process, and adds the rows to their reports."""

    def __init__(self) -> None:
        self._begun = Reading.now()
        self._shared = Reading(0.0, 0.0)
        self._within = False
        self._rows: list[dict[str, Any]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, bool, bool]:
        self._begun, self._shared = Reading.now(), Reading(0.0, 0.0)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope != "session" or self._within:
            return (yield)
        begun, self._within = Reading.now(), True
        try:
            return (yield)
        finally:
            spent, self._within = Reading.now() - begun, False
            self._shared += spent
            self._rows.append({"id": f"{fixturedef.baseid}::{fixturedef.argname}", "marks": ["session"]} | vars(spent))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            spent = Reading.now() - self._begun - self._shared
            marks = sorted({mark.name for mark in item.iter_markers()})
            self._rows.append({"id": item.nodeid, "marks": marks} | vars(spent))
            report.user_properties.append((ROWS, self._rows))
            self._rows = []
        return report


class Book:
    """Writes the rows of all processes of a run."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, rows in report.user_properties:
            if name == ROWS and report.when == "teardown":
                self._file.writelines(json.dumps(row) + "\n" for row in rows)

    def pytest_sessionfinish(self) -> None:
        self._file.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ledger", metavar="FILE", help="write a row for each test: its processor-seconds")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--ledger")
    if not path:
        return
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Book(Path(path)), "ledger-book")
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Meter(), "ledger-meter")
