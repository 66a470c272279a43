"""What chaos runs have found, each as small as it can be told."""

from __future__ import annotations

import sqlite3
from types import ModuleType

import pytest
from django.db import ConnectionHandler, InterfaceError, OperationalError
from django.db.backends.postgresql.base import DatabaseWrapper

from portal.api.common import faults
from portal.environment import env
from portal.live import agents, follower
from provisioning.common import outage


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
        assert faults.message_of(error, 503) == outage.WORDS

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

    @pytest.mark.parametrize("module", [agents, follower])
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
