"""The live log: committed events come once, in order, to who follows them; lost ones are found again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import close_old_connections, connection, transaction
from django.utils import timezone

from portal.sockets.follower import _missed
from provisioning.events import services, wake
from provisioning.events.models import Event
from provisioning.events.selectors import LoggedEvent, latest_id, oldest_id, since, since_for_reader
from provisioning.events.services import prune, record
from provisioning.events.tailer import Tailer
from tests.jobs.conftest import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases("locks")]


@pytest.fixture
def tail() -> Iterator[Tailer]:
    tailer = Tailer()
    yield tailer
    tailer.stop()


class Heard(list[int]):
    """Numbers of the payloads, in the order they came."""

    def __call__(self, event: LoggedEvent) -> None:
        self.append(event.payload["n"])


def write(*numbers: int, topic: str = "a") -> None:
    with transaction.atomic():
        for number in numbers:
            record(topic, "test", {"n": number})


def test_committed_events_come_in_order_to_their_followers(tail: Tailer) -> None:
    write(-1)
    a, b, both = Heard(), Heard(), Heard()
    for topics, heard in ((["a"], a), (["b"], b), (["a", "b"], both)):
        tail.subscribe(topics, heard)
    for number in range(20):
        write(number, topic="ab"[number % 2])
    eventually(lambda: len(a) + len(b) + len(both) == 40, "all came, to whichever follower first")
    assert both == list(range(20))
    assert a == list(range(0, 20, 2))
    assert b == list(range(1, 20, 2))
    assert tail.cursor == latest_id()


def test_a_rolled_back_event_never_comes(tail: Tailer) -> None:
    heard = Heard()
    tail.subscribe(["a"], heard)

    def fail() -> None:
        with transaction.atomic():
            write(1)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    with transaction.atomic():
        write(2)
        with pytest.raises(LookupError):
            fail()
    eventually(lambda: heard == [2], "the committed one came")


def test_nothing_comes_after_close_and_a_new_subscription_starts_now(tail: Tailer) -> None:
    first, second = Heard(), Heard()
    subscription = tail.subscribe(["a"], first)
    write(1)
    eventually(lambda: first == [1], "the first came")
    subscription.close()
    subscription.close()
    write(2)
    tail.subscribe(["a"], second)
    write(3)
    eventually(lambda: second[-1:] == [3], "the third came")
    assert first == [1]


def test_a_failing_follower_hurts_no_other(tail: Tailer) -> None:
    heard = Heard()

    def fail(_: LoggedEvent) -> None:
        raise LookupError

    tail.subscribe(["a"], fail)
    tail.subscribe(["a"], heard)
    write(1)
    write(2)
    eventually(lambda: heard == [1, 2], "both came")


def test_a_lost_wake_up_costs_a_second_at_most(tail: Tailer) -> None:
    heard = Heard()
    tail.subscribe(["a"], heard)
    Event.objects.create(topic="a", kind="test", payload={"n": 1})  # nobody is woken
    eventually(lambda: heard == [1], "it came")


def test_it_goes_on_after_its_database_connection_broke(tail: Tailer, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    tail.subscribe(["a"], heard)
    broken = threading.Event()
    wait = wake.listener

    def breaks(channel: str) -> wake.Listener:
        broken.set()
        monkeypatch.setattr(wake, "listener", wait)
        message = "gone"
        raise OSError(message)

    monkeypatch.setattr(wake, "listener", breaks)
    monkeypatch.setattr(Tailer, "_read", _failing_once(Tailer._read))
    write(1)
    eventually(broken.is_set, "it tried to listen again")
    write(2)
    eventually(lambda: heard == [1, 2], "nothing was lost")


def test_a_database_that_has_gone_back_is_heard_at_once(tail: Tailer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioning.events.tailer.LOOK_EVERY", 0.0)
    heard = Heard()
    tail.subscribe(["a"], heard)
    write(1, 2, 3)
    eventually(lambda: heard == [1, 2, 3], "all came")
    first = Event.objects.order_by("id").values_list("id", flat=True)[0]
    Event.objects.all().delete()
    Event.objects.create(id=first, topic="a", kind="test", payload={"n": 4})
    eventually(lambda: heard == [1, 2, 3, 4], "it came")


def test_after_a_restore_nobody_resumes_from_a_number_of_before(tail: Tailer) -> None:
    write(1, 2)
    seen = latest_id()
    with transaction.atomic():
        services.restart(1000)
    write(3)
    assert latest_id() == seen + 1001
    assert _missed(["a"], seen, {}) is None
    assert [event.payload["n"] for event in _missed(["a"], latest_id() - 1, {}) or ()] == [3]


def _failing_once(read: object) -> object:
    failed = threading.Event()

    def run(self: Tailer) -> None:
        if not failed.is_set():
            failed.set()
            message = "gone"
            raise OSError(message)
        read(self)  # type: ignore[operator]

    return run


def test_it_can_be_stopped_and_started_again(tail: Tailer) -> None:
    heard = Heard()
    tail.subscribe(["a"], heard)
    tail.stop()
    write(1)
    tail.subscribe(["b"], heard)
    write(2)
    eventually(lambda: heard == [2], "the second came")


def test_events_that_commit_out_of_order_all_come(tail: Tailer) -> None:
    """Two transactions at a time exist on PostgreSQL only; on SQLite the second waits for the first."""
    write(0)
    heard = Heard()
    tail.subscribe(["a"], heard)
    before = latest_id()
    if connection.vendor != "postgresql":
        write(1)
        write(2)
        eventually(lambda: heard == [1, 2], "both came")
        assert tail.cursor == latest_id()
        return
    drawn, commit = threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            record("a", "test", {"n": 1})
            drawn.set()
            commit.wait(60)
        close_old_connections()
        connection.close()

    thread = threading.Thread(target=slow)
    thread.start()
    drawn.wait(60)
    write(2)
    eventually(lambda: heard == [2], "the later number came first")
    assert tail.cursor == before  # who resumes from here misses nothing
    late = since_for_reader(["a"], latest_id())
    commit.set()
    thread.join()
    eventually(lambda: heard == [2, 1], "the earlier number came after it")
    assert tail.cursor == latest_id()
    assert [event.payload["n"] for event in late] == [0, 2]
    assert [event.payload["n"] for event in since_for_reader(["a"], latest_id())] == [0, 1, 2]


def test_since_gives_what_a_reader_lacks() -> None:
    write(1)
    seen = latest_id()
    write(2, 3)
    write(4, topic="b")
    assert [event.payload["n"] for event in since(["a"], seen)] == [2, 3]
    assert [event.payload["n"] for event in since(["a", "b"], seen, limit=2)] == [2, 3]
    assert since(["a"], latest_id()) == []


def test_pruning_keeps_the_retention_and_the_newest() -> None:
    assert prune() == 0
    assert (latest_id(), oldest_id()) == (0, 0)
    write(1, 2, 3)
    newest = latest_id()
    old = timezone.now() - timedelta(seconds=settings.EVENT_RETENTION + 1)
    Event.objects.update(created_at=old)
    assert prune() == 2
    assert (latest_id(), oldest_id()) == (newest, newest)


def test_dead_listeners_are_cleared_away() -> None:
    if connection.vendor == "postgresql":
        return
    listener = wake.listener(wake.EVENTS)
    folder = settings.RUN_DIR / "wake"
    dead = folder / f"1-dead.{wake.EVENTS}"
    dead.unlink(missing_ok=True)
    live = set(folder.iterdir())
    listener._socket.close()  # type: ignore[attr-defined]  # as a killed process leaves it
    write(1)
    assert not live & set(folder.glob(f"*.{wake.EVENTS}"))
