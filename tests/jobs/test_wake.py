"""Wake-ups: each channel once for each transaction."""

from __future__ import annotations

import contextlib

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from provisioning.events import wake
from provisioning.events.services import record


@pytest.mark.django_db(transaction=True)
def test_one_transaction_wakes_a_channel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(wake, "poke", sent.append)
    with transaction.atomic():
        record("t", "k", {})
        with transaction.atomic():
            record("t", "k", {})
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            record("t", "k", {})
            raise ZeroDivisionError
        wake.announce(wake.QUEUE)
        assert sent == []
    assert sent == [wake.EVENTS, wake.QUEUE]
    record("t", "k", {})
    assert sent == [wake.EVENTS, wake.QUEUE, wake.EVENTS]


@pytest.mark.django_db(transaction=True)
def test_what_only_an_undone_part_announced_wakes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(wake, "poke", sent.append)
    with transaction.atomic():
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            record("t", "k", {})
            raise ZeroDivisionError
        wake.announce(wake.QUEUE)
    assert sent == [wake.QUEUE]


@pytest.mark.both_databases("sql")
@pytest.mark.django_db(transaction=True)
def test_a_transaction_sends_one_notification_and_another_after_an_undone_part() -> None:
    with contextlib.closing(wake.listener(wake.EVENTS)) as listener, CaptureQueriesContext(connection) as queries:
        with transaction.atomic():
            with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                record("t", "k", {})
                raise ZeroDivisionError
            for _ in range(3):
                record("t", "k", {})
        assert listener.wait(30)
    sent = sum("pg_notify" in query["sql"] for query in queries)
    assert sent == (2 if connection.vendor == "postgresql" else 0)
