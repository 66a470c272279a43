"""A pytest plugin that runs the collected tests once for each mutant, each time in a fork of the loaded process.

A separate process for each mutant would load Django and all tests again, which takes longer than most tests. In the
fork, the code of the loaded function is replaced by the code of the mutant.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

CLEAN_WITHIN = 900.0
SPARE, TIMES = 60.0, 5.0
"""The time limit of a mutant: ``TIMES`` the duration with the unchanged code, plus ``SPARE`` seconds."""
DATA = "NOVELLA_DATA"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", type=Path, help="a JSON object: module, path, mutants")
    parser.addoption("--verdicts", type=Path, help="where to write a JSON line for each run")


def put_in(module: str, name: str, source: str, path: str) -> None:
    """Replace the code of a function in a loaded module by its code in another source of the module."""
    code = next(each for each in _codes(compile(source, path, "exec", dont_inherit=True)) if each.co_qualname == name)
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    function = _plain(found)
    if function.__code__.co_qualname != name:
        raise TypeError(f"{name} is hidden behind a decorator: its function is {function.__qualname__}")
    function.__code__ = code


def _plain(found: object) -> FunctionType:
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    elif isinstance(found, property):
        found = found.fget
    elif isinstance(found, functools.cached_property):
        found = found.func
    function = inspect.unwrap(found)  # type: ignore[arg-type]
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is not a function")
    return function


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class _Child:
    """Records the first failed test, and ends the process without the cleanup of the parent process."""

    def __init__(self, report: Path) -> None:
        self._report = report

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._report.exists():
            self._report.write_text(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        os._exit(int(exitstatus))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Fork; a child returns None, so that pytest continues normally in it."""
    wanted = json.loads(session.config.option.mutants.read_text())
    verdicts: Path = session.config.option.verdicts
    kept = Path(f"{verdicts}.data")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(os.environ[DATA], kept)
    within = CLEAN_WITHIN
    for mutant in [None, *wanted["mutants"]]:
        shutil.rmtree(os.environ[DATA], ignore_errors=True)  # a mutant whose tests were aborted may have removed it
        shutil.copytree(kept, os.environ[DATA])
        report = Path(f"{verdicts}.said")
        report.unlink(missing_ok=True)
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _become(session, mutant, wanted, verdicts)
            session.config.pluginmanager.register(_Child(report))
            return None
        status, cost = _wait(child, within)
        seconds = time.monotonic() - began
        verdict = {"key": mutant and mutant["key"], "status": status, "cost": cost, "seconds": round(seconds, 1)}
        verdict["by"] = report.read_text() if report.exists() else ""
        with verdicts.open("a") as file:
            file.write(json.dumps(verdict) + "\n")
        if mutant is None:
            within = seconds * TIMES + SPARE
            if status != 0:
                break
    shutil.rmtree(kept)
    return True


def _become(session: pytest.Session, mutant: dict[str, str] | None, wanted: dict[str, str], verdicts: Path) -> None:
    os.setsid()
    log = os.open(f"{verdicts}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(log, number)
    if mutant is not None:
        put_in(wanted["module"], mutant["function"], mutant["source"], wanted["path"])


def _wait(child: int, within: float) -> tuple[int | None, float]:
    """Return pytest's exit status (None if it exceeded the time limit) and the processor seconds."""
    deadline = time.monotonic() + within
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _, _, used = os.wait4(child, 0)
            return None, round(used.ru_utime + used.ru_stime, 2)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):  # remnants of its children
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status), round(used.ru_utime + used.ru_stime, 2)
