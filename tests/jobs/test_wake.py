"""Wake-ups on one machine, by datagrams: each channel once for each transaction (PostgreSQL folds its own)."""

from __future__ import annotations

import contextlib

import pytest
from django.db import transaction

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
