"""What chaos runs have found, each as small as it can be told."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from django.db import ConnectionHandler, InterfaceError, OperationalError
from django.db.backends.postgresql.base import DatabaseWrapper
from django.utils import timezone
from django_q.models import OrmQ

from portal.agents import link
from portal.api.common import faults
from portal.sockets import follower
from provisioning.common.database import outage
from provisioning.common.environment import env
from provisioning.jobs import registry
from provisioning.jobs.models import JobRun
from provisioning.jobs.queue import rows, worker_groups
from provisioning.jobs.queue.cast import JobMessage, sign
from provisioning.jobs.workers import dispatch


def _locked() -> OperationalError:
    error = OperationalError("database is locked")
    error.__cause__ = sqlite3.OperationalError("database is locked")
    error.__cause__.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def _postgresql(kind: type[Exception], state: str | None) -> Exception:
    error = kind("no")
    cause = type("Cause", (Exception,), {"sqlstate": state})("no")
    error.__cause__ = cause
    return error


class TestAnOutageOfTheDatabase:
    """It was answered as a bug of ours, 500, with a traceback in the log for each request."""

    @pytest.mark.parametrize("service", ["compute", "image", "identity", "network"])
    @pytest.mark.parametrize(
        "error",
        [
            _locked(),
            OperationalError("database is locked by another thread"),
            _postgresql(OperationalError, None),
            _postgresql(OperationalError, "57P01"),
            _postgresql(OperationalError, "08006"),
            _postgresql(InterfaceError, None),
        ],
        ids=["locked file", "locked by a thread", "no connection", "shut down", "broken", "closed"],
    )
    def test_is_answered_503_with_a_sentence(self, error: Exception, service: str) -> None:
        assert faults.status_of(error, service) == 503
        assert faults.message_of(error, 503) == outage.NO_ANSWER

    def test_a_wrong_question_is_still_a_bug(self) -> None:
        error = OperationalError("too many SQL variables")
        error.__cause__ = sqlite3.OperationalError("too many SQL variables")
        error.__cause__.sqlite_errorcode = sqlite3.SQLITE_ERROR
        assert faults.status_of(error, "compute") is None
        assert faults.status_of(_postgresql(OperationalError, "42601"), "compute") is None
        assert not outage.is_outage(ValueError("locked"))


class TestALinkThatFails:
    """It was closed with 1011, which the web server refuses to send: the link's end was an exception, and what it had
    subscribed to was never let go.
    """

    @pytest.mark.parametrize("module", [link, follower])
    def test_is_closed_with_a_code_that_an_application_may_send(self, module: ModuleType) -> None:
        codes = [value for name, value in vars(module).items() if name.isupper() and isinstance(value, int)]
        assert 4500 in codes
        for code in codes:
            if 1000 <= code < 5000:
                assert code == 1000 or code >= 3000, f"{module.__name__} closes with {code}"


def test_the_web_can_pool_its_connections_to_postgresql() -> None:
    """The pool is a package of its own, which was not installed: no web process could use PostgreSQL at all."""
    web = env.db_url_config("postgres://novella@/postgres?host=/nowhere")
    web.setdefault("OPTIONS", {})["pool"] = {"min_size": 1, "max_size": 8}
    database = ConnectionHandler({"default": web})["default"]
    assert isinstance(database, DatabaseWrapper)
    assert database.pool.max_size == 8
    database.close_pool()


class TestAJobInAnOutage:
    """The database went away under a job; its failure could not be counted, so the message was not given back.  It
    stayed with the living worker, which had forgotten it, until its lock ended minutes later.
    """

    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dispatch.time, "sleep", lambda _: None)

    def message(self, monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]) -> tuple[int, JobMessage]:
        job = registry.Job("chaos.job", "chaos", run, None)
        monkeypatch.setattr(registry.jobs, "_entries", {**registry.jobs, job.name: job})
        message = JobMessage("chaos", "chaos.job", {}, "req-1", 0.0)
        rows.put("chaos", sign(message))
        taken = rows.claim(["chaos"], "group")
        assert taken is not None
        return taken.id, message

    @pytest.mark.django_db(transaction=True)
    def test_is_given_back_when_the_database_is_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def job() -> None:
            raise _locked()

        monkeypatch.setattr(dispatch.worker_groups, "count_failure", _once_away(worker_groups.count_failure))
        number, message = self.message(monkeypatch, job)
        dispatch.run(number, "group", message)
        assert JobRun.objects.get(message_id=number).group == ""
        assert OrmQ.objects.get(id=number).lock < timezone.now() + timedelta(seconds=10)

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("noted", [False, True], ids=["nothing was written", "it was written"])
    def test_is_run_when_its_start_could_not_be_written(self, monkeypatch: pytest.MonkeyPatch, noted: bool) -> None:
        ran: list[int] = []
        monkeypatch.setattr(dispatch.rows, "start", _once_away(rows.start, after=noted))
        number, message = self.message(monkeypatch, lambda: ran.append(1))
        dispatch.run(number, "group", message)
        assert ran == [1]
        assert not OrmQ.objects.filter(id=number).exists()


def _once_away(work: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
    """Let the first call fail as if the database were away, before the work or ``after`` it."""
    calls: list[int] = []

    def run(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            return work(*arguments, **options)
        if after:
            work(*arguments, **options)
        raise _locked()

    return run
