"""The ledger of the suite: the processor-seconds of each test.

``tests/conftest.py`` loads this module as a plugin; ``pytest --ledger=FILE`` writes a row for each test to FILE, as
JSON lines: its id, its tier, its processor-seconds and the seconds that it took; at its end the run says what it cost.

A test's cost is the processor time of its set-up, call and teardown, in its worker and in all processes that descend
from it, those that go on running included; not that of fixtures of the session, which are rows of their own, as the
start of each process with its collection is.  Between the tests each worker measures the speed of its processor by the
same small calculation, so that costs of different machines and hours can be compared (``ledger_file.taken_over``).
"""

from __future__ import annotations

import gc
import json
import math
import os
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.ledger_file import CALIBRATION
from tests.support.tiers import tier_of

TICK = os.sysconf("SC_CLK_TCK")
ROWS = "ledger"
"""Name of the property of a report that has the rows."""
MOST = 5
"""Tests that a run names at its end: those that took longest."""
CALIBRATED_EVERY = 20.0
"""Seconds."""


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

    def known(self) -> Reading:
        """Without what is below nothing: the time of processes whose parent was killed is lost."""
        return Reading(max(self.cost, 0.0), self.seconds)

    def __add__(self, other: Reading) -> Reading:
        return Reading(self.cost + other.cost, self.seconds + other.seconds)


def _of_descendants(pid: int) -> Iterator[float]:
    """Yield the processor-seconds of each running descendant and of its children that have ended."""
    for child in _children(pid):
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended, and counts with its parent
            continue
        yield sum(map(int, fields[11:15])) / TICK
        yield from _of_descendants(child)


def _children(pid: int) -> list[str]:
    values: list[str] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            values += (task / "children").read_text().split()
    except OSError:
        return []
    return values


def calibration() -> float:
    """Return the processor-seconds of a calculation that is always the same: text is formatted, parsed and sorted."""
    gc.disable()  # a collection looks at all that the tests have loaded
    begun = time.process_time()
    rows = [
        {"id": n, "name": f"server-{n}", "addresses": [f"192.0.2.{n % 250 + k}" for k in range(4)]} for n in range(1000)
    ]
    sorted(json.loads(json.dumps(rows, indent=1)), key=lambda row: str(row["name"]))
    spent = time.process_time() - begun
    gc.enable()
    return spent


class Meter:
    """Measures the tests of one process, and adds the rows to their reports."""

    def __init__(self, tier: str) -> None:
        self._tier = tier
        """Of the run."""
        self._begun = Reading.now()
        self._shared = Reading(0.0, 0.0)
        self._within = False
        self._calibrated = -math.inf
        self._rows: list[dict[str, Any]] = []

    def pytest_collection_finish(self) -> None:
        self._of_the_session("collection", Reading.now() - Reading(0.0, self._begun.seconds))

    def _of_the_session(self, name: str, spent: Reading) -> None:
        self._rows.append({"id": name, "session": True, "tier": self._tier} | vars(spent))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, bool, bool]:
        if time.monotonic() - self._calibrated > CALIBRATED_EVERY:
            self._of_the_session(CALIBRATION, Reading(spent := calibration(), spent))
            self._calibrated = time.monotonic()
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
            self._of_the_session(f"{fixturedef.baseid}::{fixturedef.argname}", spent)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            spent = (Reading.now() - self._begun - self._shared).known()
            marks = sorted({mark.name for mark in item.iter_markers()})
            self._rows.append({"id": item.nodeid, "tier": tier_of(marks), "marks": marks} | vars(spent))
            report.user_properties.append((ROWS, self._rows))
            self._rows = []
        return report


class Book:
    """Writes the rows of all processes of a run, and says at the end what they cost."""

    def __init__(self, path: Path, tier: str, *, whole: bool) -> None:
        self._file = path.open("w")
        self._tier = tier
        self._whole = whole
        """Whether all tests of the tier run."""
        self._begun = Reading.now()
        self._rows: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, rows in report.user_properties:
            if name == ROWS and report.when == "teardown":
                self._rows += rows
                self._file.writelines(json.dumps(row) + "\n" for row in rows)

    def pytest_sessionfinish(self) -> None:
        times = os.times()
        own = {"id": "controller", "session": True, "tier": self._tier, "cost": times.user + times.system}
        self._rows.append(own | {"seconds": time.monotonic() - self._begun.seconds, "whole": self._whole})
        self._file.write(json.dumps(self._rows[-1]) + "\n")
        self._file.close()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        tests = [row for row in self._rows if not row.get("session")]
        dearest = sorted(tests, key=lambda row: -float(row["seconds"]))[:MOST]
        slowest = ", ".join(f"{row['id'].removeprefix('tests/')} {row['seconds']:.0f} s" for row in dearest)
        spent = sum(row["cost"] for row in self._rows)
        terminalreporter.write_line(
            f"{len(tests):,} tests, {spent:,.0f} processor-seconds; the slowest: {slowest or 'none'}"
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ledger", metavar="FILE", help="write a row for each test: its processor-seconds")


def pytest_configure(config: pytest.Config) -> None:
    path, tier = config.getoption("--ledger"), config.getoption("--tier")
    if not path:
        return
    parallel = config.getoption("numprocesses", None)
    if not hasattr(config, "workerinput"):
        chosen = any(config.getoption(option) for option in ("--slice", "keyword", "markexpr"))
        whole = not chosen and config.args_source is not pytest.Config.ArgsSource.ARGS
        config.pluginmanager.register(Book(Path(path), tier, whole=whole), "ledger-book")
    if hasattr(config, "workerinput") or not parallel:
        config.pluginmanager.register(Meter(tier), "ledger-meter")
