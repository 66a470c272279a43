"""What every test shares: a skip is a failure unless the caller allows it, so that nothing is left out quietly."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from django.core.cache import caches

pytest_plugins = ["tests.support.cast"]

ALLOW_SKIP = "NOVELLA_TESTS_ALLOW_SKIP"
"""Set by bin/test on a machine that cannot install what the tests need; then a skip is only reported."""


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure that says the reason of the skip."""
    if not report.skipped or hasattr(report, "wasxfail") or os.environ.get(ALLOW_SKIP):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{reason}\nA skipped test counts as a failure ({ALLOW_SKIP}=1 allows it)."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.fixture(autouse=True)
def _no_wrong_passwords_yet() -> None:
    """Wrong passwords are counted in memory: each test begins with none."""
    caches["sign_in"].clear()
