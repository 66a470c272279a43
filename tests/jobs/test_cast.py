"""Casting belongs to the transaction, names registered jobs only, and carries plain JSON."""

from __future__ import annotations

import uuid

import pytest
from django.db import transaction
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.common.processes import tracing
from provisioning.jobs import registry
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.cast import cast, cast_here
from tests.support import jobs

pytestmark = pytest.mark.both_databases("locks")

TOPIC = "cast-tests"
ran: list[tuple[str, object, str]] = []


@registry.job("tests.cast.note", topic=TOPIC)
def note(what: object) -> None:
    ran.append(("note", what, tracing.request_id.get()))


@registry.job("tests.cast.chain", topic=TOPIC)
def chain(left: int) -> None:
    ran.append(("chain", left, tracing.request_id.get()))
    if left:
        cast(TOPIC, "tests.cast.chain", left=left - 1)


@registry.job("tests.cast.forever", topic=TOPIC)
def forever() -> None:
    cast(TOPIC, "tests.cast.forever")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@pytest.mark.django_db
def test_drain_runs_jobs_in_order_and_their_followers() -> None:
    mark = tracing.request_id.set("req-1")
    cast(TOPIC, "tests.cast.chain", left=2)
    cast(TOPIC, "tests.cast.note", what="x")
    tracing.request_id.reset(mark)
    assert jobs.drain() == 4
    assert ran == [
        ("chain", 2, "req-1"),
        ("note", "x", "req-1"),
        ("chain", 1, "req-1"),
        ("chain", 0, "req-1"),
    ]
    assert tracing.request_id.get() == "-"


@pytest.mark.django_db(transaction=True)
def test_rollback_leaves_no_message() -> None:
    def change_and_fail() -> None:
        with transaction.atomic():
            cast(TOPIC, "tests.cast.note", what="x")
            message = "changed my mind"
            raise LookupError(message)

    with pytest.raises(LookupError):
        change_and_fail()
    assert not OrmQ.objects.exists()


@pytest.mark.django_db
def test_ids_arrive_as_text() -> None:
    number = uuid.uuid4()
    cast(TOPIC, "tests.cast.note", what=number)
    jobs.drain()
    assert ran[0][1] == str(number)


@pytest.mark.django_db
def test_what_is_not_json_is_refused_at_the_sender() -> None:
    with pytest.raises(TypeError):
        cast(TOPIC, "tests.cast.note", what=object())
    assert not OrmQ.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("topic", "job"), [(TOPIC, "os.system"), ("another", "tests.cast.note")])
def test_only_registered_jobs_of_the_topic_can_be_cast(topic: str, job: str) -> None:
    with pytest.raises(LookupError):
        cast(topic, job)
    assert not OrmQ.objects.exists()


@pytest.mark.django_db
def test_drain_ends_when_jobs_never_do() -> None:
    cast(TOPIC, "tests.cast.forever")
    with pytest.raises(RuntimeError, match="not empty after 20"):
        jobs.drain(limit=20)


@registry.job("tests.cast.fail", topic=TOPIC)
def fail() -> None:
    ran.append(("fail", None, ""))
    message = "not yet"
    raise LookupError(message)


jobs.add(note, chain, forever, fail)


@pytest.mark.django_db(transaction=True)
def test_what_is_cast_here_runs_at_the_commit_and_leaves_no_message() -> None:
    number = uuid.uuid4()
    with transaction.atomic():
        cast_here(TOPIC, "tests.cast.note", what=number)
        assert OrmQ.objects.exists()
        assert not ran
    assert [what for _, what, _ in ran] == [str(number)]
    assert not OrmQ.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_worker_tries_what_failed_where_it_was_cast() -> None:
    with transaction.atomic():
        cast_here(TOPIC, "tests.cast.fail")
    assert rows.claim([TOPIC], "g") is not None


@pytest.mark.django_db(transaction=True)
def test_what_a_dead_process_was_to_run_is_a_workers_later() -> None:
    number = rows.put_aside(TOPIC, "text")
    assert rows.claim([TOPIC], "g") is None
    OrmQ.objects.filter(id=number).update(lock=timezone.now())
    assert rows.claim([TOPIC], "g") is not None
