"""What every test shares: a skip is a failure unless the caller allows it, so that nothing is left out quietly."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from django.conf import settings
from django.core.cache import caches
from django.test.signals import setting_changed

from provisioning.identity import policy
from provisioning.identity.credentials.secret_hashes import Argon2Hasher
from provisioning.identity.encryption import keys

pytest_plugins = [
    "tests.support.standing",
    "tests.support.cast",
    "tests.support.databases",
    "tests.support.tiers",
    "tests.support.lanes",
    "tests.support.ledger",
    "tests.support.statements",
    "tests.support.ceph",
]

ALLOW_SKIP = "NOVELLA_TESTS_ALLOW_SKIP"
"""Set by bin/test on a machine that cannot install what the tests need; then a skip is only reported."""


for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        # A shell in the background and nohup ignore them, and programs that tests stop by them would inherit that.
        signal.signal(number, lambda *_: None)


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


gc.set_threshold(200_000, 50, 100)
"""Until all tests are collected hardly anything becomes rubbish: looking for it took a tenth of that time."""


def pytest_collection_finish() -> None:
    """What is there before the first test stays until the end: looking for rubbish in it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


REAL_COSTS = {name: getattr(Argon2Hasher, name) for name in ("time_cost", "memory_cost", "parallelism")}


@pytest.fixture(scope="session", autouse=True)
def _cheap_hashes() -> None:
    """Passwords are hashed as always, at the least cost there is: thousands of tests are not about that."""
    Argon2Hasher.time_cost, Argon2Hasher.memory_cost = 1, 8


@pytest.fixture(scope="session", autouse=True)
def _patient_with_hosts() -> None:
    """Hosts of tests send no heartbeats: they are up for half an hour, also where a busy machine is slow.

    A test whose host is down sets ``last_seen_at`` back by an hour.
    """
    settings.HOST_DOWN_AFTER = 1800


@pytest.fixture(scope="session", autouse=True)
def _keys_of_the_cloud() -> None:
    """Every cloud has keys before its first request: ``manage.py bootstrap`` creates them."""
    keys.TOKENS.ensure()
    keys.CREDENTIALS.ensure()


def _look_at_the_policy_file(*, setting: str, **_: object) -> None:
    """A test that names another policy file has it read at the next question, as at the start of a process; one that
    names another folder of keys has its first key there.
    """
    if setting in {"TOKEN_KEYS_DIR", "CREDENTIAL_KEYS_DIR"}:
        (keys.TOKENS if setting == "TOKEN_KEYS_DIR" else keys.CREDENTIALS).ensure()
    if setting == "POLICY_FILE" and policy._in_force is not None:
        policy._in_force.look_at = 0.0


setting_changed.connect(_look_at_the_policy_file)


@pytest.fixture
def real_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what hashing costs."""
    for name, cost in REAL_COSTS.items():
        monkeypatch.setattr(Argon2Hasher, name, cost)


@pytest.fixture(autouse=True)
def _no_wrong_passwords_yet() -> None:
    """Wrong passwords are counted in memory: each test begins with none."""
    for name in ("sign_in", "lockouts"):
        caches[name].clear()
