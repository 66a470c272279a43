"""What chaos runs have found, each as small as it can be told."""

from __future__ import annotations

import sqlite3

import pytest
from django.db import InterfaceError, OperationalError

from portal.api.common import faults
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
