"""What provisioning.jobs relies on inside django-q2: a test here fails when another version of it breaks that."""

from __future__ import annotations

import inspect
import queue
import signal
import threading
import uuid
from multiprocessing import Event, Value
from types import SimpleNamespace
from typing import Any

import django_q.cluster
import django_q.pusher
import django_q.worker
import pytest
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.exceptions import TimeoutException
from django_q.models import OrmQ
from django_q.signing import BadSignature

from provisioning.jobs.queue.broker import Broker
from provisioning.jobs.queue.cast import JobMessage, sign
from provisioning.jobs.queue.rows import ClaimedMessage
from provisioning.jobs.workers import dispatch
from provisioning.jobs.workers import django_q_internals as internals
from tests.jobs.worker import TOPICS

pytestmark = pytest.mark.django_db
MESSAGE = JobMessage(TOPICS[0], "tests.worker.note", {}, "-", 0.0)


@pytest.fixture(autouse=True)
def _unpatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process keep its own signals, and django-q2 as it is."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for owner, name in (
        (Conf, "WORKERS"),
        (Conf, "QUEUE_LIMIT"),
        (django_q.pusher, "SignedPackage"),
        (django_q.cluster.Sentinel, "reincarnate"),
        (internals.SignedMessages, "group"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_names_and_their_signatures() -> None:
    assert parameters(internals._original_reincarnate) == ["self", "process"]
    assert parameters(django_q.cluster.Cluster.__init__) == ["self", "broker"]
    assert parameters(django_q.cluster.Cluster.start) == ["self"]
    assert parameters(django_q.pusher.pusher) == ["task_queue", "event", "broker"]
    assert parameters(django_q.worker.worker) == ["task_queue", "result_queue", "timer", "timeout"]
    assert {"id", "key", "payload", "lock"} <= {field.name for field in OrmQ._meta.get_fields()}
    assert not issubclass(TimeoutException, Exception), "dispatch catches it by name"


@pytest.mark.parametrize("name", ["enqueue", "dequeue", "queue_size", "acknowledge", "fail"])
def test_the_brokers_methods(name: str) -> None:
    assert parameters(getattr(Broker, name)) == parameters(getattr(ORM, name))


def test_a_cluster_that_is_made_has_the_patches_and_the_size() -> None:
    cluster = internals.make_cluster(Broker(topics=["t"], group="g"), 3)
    assert (Conf.WORKERS, Conf.QUEUE_LIMIT) == (3, 3)
    assert django_q.pusher.SignedPackage is internals.SignedMessages
    assert django_q.cluster.Sentinel.reincarnate is internals._reincarnate
    assert cluster.broker.group == internals.SignedMessages.group == "g"
    assert cluster.sentinel is None


def test_the_sentinel_has_a_timer_for_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    internals.make_cluster(Broker(), 2)
    process = SimpleNamespace(start=lambda: None)
    context = SimpleNamespace(Process=lambda **_: process)
    monkeypatch.setattr(django_q.cluster, "get_mp_context", lambda: context)
    sentinel = django_q.cluster.Sentinel(Event(), Event(), uuid.uuid4(), broker=Broker(), start=False)
    assert sentinel.monitor is None
    assert sentinel.pusher is None
    assert sentinel.pool_size == 2
    sentinel.spawn_worker()
    assert sentinel.pool == [process]
    assert process.timer.value == internals.IDLE


def push(taken: ClaimedMessage) -> tuple[list[dict[str, Any]], list[int]]:
    """Let the pusher push what a broker gave; returns the tasks and the numbers of the messages that failed."""
    internals.make_cluster(Broker(), 1)
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()
    failed: list[int] = []
    stop = threading.Event()
    stop.set()
    broker = SimpleNamespace(dequeue=lambda: [(taken.id, taken)], fail=failed.append, list_key="t")
    django_q.pusher.pusher(tasks, stop, broker)
    return [tasks.get() for _ in range(tasks.qsize())], failed


def test_the_pusher_reads_what_the_broker_gives_by_our_class() -> None:
    (task,), failed = push(ClaimedMessage(7, sign(MESSAGE)))
    assert not failed
    assert task["func"] is dispatch.run
    assert task["args"] == (7, "", MESSAGE)


def test_the_pusher_tells_the_broker_of_a_bad_signature() -> None:
    assert push(ClaimedMessage(7, "forged")) == ([], [7])
    with pytest.raises(BadSignature):
        internals.SignedMessages.loads(ClaimedMessage(7, "forged"))


def test_the_worker_runs_the_task_and_is_idle_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (task,), _ = push(ClaimedMessage(7, sign(MESSAGE)))
    timer = Value("f", internals.IDLE)
    seen: list[Any] = []
    task["func"] = lambda *args: seen.append((args, timer.value > 0))
    monkeypatch.setattr(django_q.worker, "close_old_django_connections", lambda: None)
    tasks: queue.Queue[Any] = queue.Queue()
    results: queue.Queue[Any] = queue.Queue()
    tasks.put(task)
    tasks.put("STOP")
    django_q.worker.worker(tasks, results, timer, 60)
    assert seen == [((7, "", MESSAGE), True)]
    assert timer.value == internals.IDLE
    assert results.get()["success"]
