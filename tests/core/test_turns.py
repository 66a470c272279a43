"""One thread of a process is in a transaction on SQLite at a time; the next is woken when it ends, however it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import OperationalError, connection, transaction

from provisioning.common.sqlite import turns
from provisioning.compute.models import Flavor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("on_sqlite")]


@pytest.fixture
def on_sqlite(transactional_db: None) -> None:
    assert connection.vendor == "sqlite", "the tests' own settings use SQLite"


class Other(threading.Thread):
    """Work in another thread with a connection of its own."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self.work, self.error, self.done = work, None, threading.Event()
        self.start()

    error: Exception | None

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            connection.close()
            self.done.set()


def write() -> None:
    with transaction.atomic():
        Flavor.objects.filter(name="x").update(vcpus=2)


@pytest.mark.parametrize("ends", ["commit", "rollback", "close"])
def test_the_next_thread_goes_on_when_a_transaction_ends(ends: str) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        connection.ensure_connection()
        connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
        inside.set()
        leave.wait(60)
        getattr(connection, ends)()

    holder = Other(hold)
    assert inside.wait(60)
    waiting = Other(write)
    assert not waiting.done.wait(0.1)
    leave.set()
    assert waiting.done.wait(60)
    holder.join(60)
    assert (holder.error, waiting.error) == (None, None)


def test_an_exception_gives_the_turn_on() -> None:
    def fail() -> None:
        with transaction.atomic():
            raise RuntimeError

    first = Other(fail)
    assert first.done.wait(60)
    assert isinstance(first.error, RuntimeError)
    write()


def test_a_savepoint_does_not_wait_for_its_own_thread() -> None:
    with transaction.atomic(), transaction.atomic():
        assert Flavor.objects.filter(name="x").update(vcpus=2) == 0
    other = Other(write)
    assert other.done.wait(60)
    assert other.error is None


def test_waiting_ends() -> None:
    def impatient() -> None:
        connection.ensure_connection()
        connection.connection.patience = 0.05
        write()

    with transaction.atomic():
        other = Other(impatient)
        assert other.done.wait(60)
    assert isinstance(other.error, OperationalError)
    write()


def test_reading_waits_for_nobody() -> None:
    with transaction.atomic():
        other = Other(lambda: Flavor.objects.count())
        assert other.done.wait(60)
    assert other.error is None


def test_a_thread_that_has_waited_long_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that takes its turn again and again leaves it to one that waits."""
    monkeypatch.setattr(turns, "STARVED", 0.0)
    turn, got, leave = turns.Turn(), threading.Event(), threading.Event()

    def wait() -> None:
        assert turn.acquire(600)
        got.set()
        leave.wait(600)
        turn.release()

    assert turn.acquire(0)
    waiting = Other(wait)
    while not turn._waiting:
        assert not waiting.done.wait(0.001)
    turn.release()
    assert not turn.acquire(0), "it belongs to the waiter, awake or not"
    assert got.wait(600)
    leave.set()
    waiting.join(600)
    assert waiting.error is None
    assert turn.acquire(0)


def test_who_waited_in_vain_is_given_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STARVED", 0.0)
    turn = turns.Turn()
    assert turn.acquire(0)
    assert not turn.acquire(0.01)
    turn.release()
    assert turn.acquire(0)


def test_every_thread_gets_its_turns_and_none_at_once() -> None:
    turn, inside = turns.Turn(), list[int]()

    def work() -> None:
        for _ in range(200):
            assert turn.acquire(600)
            inside.append(1)
            assert len(inside) == 1
            inside.pop()
            turn.release()

    threads = [Other(work) for _ in range(6)]
    for thread in threads:
        thread.join(600)
    assert [thread.error for thread in threads] == [None] * 6
    assert not turn._waiting
