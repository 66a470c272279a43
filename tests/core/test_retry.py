"""A transaction that the database broke off for the sake of another one is run again; nothing else is."""

from __future__ import annotations

import threading
import uuid
from types import SimpleNamespace

import pytest
from django.db import OperationalError, transaction
from django.db.models import F

from provisioning.common.database import retry
from provisioning.quotas.models import QuotaUsage
from tests.core.test_parallel import in_threads

pytestmark = pytest.mark.both_databases("locks")

PROJECT = uuid.UUID(int=1)


class _ToldError(Exception):
    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("told")
        self.sqlstate = sqlstate


def _failing(times: int, sqlstate: str | None) -> SimpleNamespace:
    """Something that fails so often before it succeeds, and counts its calls."""
    made = SimpleNamespace(calls=0)

    @retry.when_broken_off
    def work() -> str:
        made.calls += 1
        if made.calls <= times:
            raise OperationalError("told") from _ToldError(sqlstate)
        return "done"

    made.work = work
    return made


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSE", 0.0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_it_is_run_again_and_not_for_ever(sqlstate: str) -> None:
    some = _failing(retry.TRIES - 1, sqlstate)
    assert some.work() == "done"
    many = _failing(100, sqlstate)
    with pytest.raises(OperationalError):
        many.work()
    assert many.calls == retry.TRIES


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("sqlstate", [None, "57P01", "55P03"])
def test_another_trouble_is_not_hidden(sqlstate: str | None) -> None:
    other = _failing(1, sqlstate)
    with pytest.raises(OperationalError):
        other.work()
    assert other.calls == 1


@pytest.mark.django_db(transaction=True)
def test_a_part_of_a_transaction_is_not_run_again() -> None:
    part = _failing(1, "40P01")
    with pytest.raises(OperationalError), transaction.atomic():
        part.work()
    assert part.calls == 1


@pytest.mark.django_db(transaction=True)
def test_two_that_wait_for_each_other_both_end() -> None:
    """On PostgreSQL one of them is broken off and run again; SQLite lets them come one behind the other."""
    names = ("cores", "ram")
    QuotaUsage.objects.bulk_create(QuotaUsage(project_id=PROJECT, resource=name) for name in names)
    begun = [threading.Event(), threading.Event()]

    @retry.when_broken_off
    @transaction.atomic
    def work(index: int) -> None:
        for name in names if index else reversed(names):
            QuotaUsage.objects.filter(project_id=PROJECT, resource=name).update(in_use=F("in_use") + 1)
            begun[index].set()
            begun[1 - index].wait(0.2)

    assert in_threads(2, work) == [None, None]
    assert set(QuotaUsage.objects.values_list("in_use", flat=True)) == {2}
