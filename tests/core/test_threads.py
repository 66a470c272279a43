"""Threads that do the database work of event loops, and what a test leaves to them."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase
from pytest_django import DjangoDbBlocker

from provisioning.common.processes.threads import Threads, in_thread
from provisioning.events.models import Event
from provisioning.events.services import record
from provisioning.events.tailer import tailer
from tests.support import databases
from tests.support.sockets import in_db

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_connection_that_came_not_out_of_its_transaction_is_not_used_again(
    django_db_blocker: DjangoDbBlocker,
) -> None:
    """Whatever came later in that thread would be part of it: reads refused at once, wake-ups never sent."""
    threads = Threads("one", 1)
    begun, go_on = threading.Event(), threading.Event()

    def cut_off() -> None:
        with transaction.atomic():
            record("project:x", "note", {})
            begun.set()
            go_on.wait(60)
            record("project:x", "note", {})

    done: list[str] = []

    def commit() -> bool:
        with transaction.atomic():
            transaction.on_commit(lambda: done.append("committed"))
        return connection.get_autocommit()

    work = asyncio.ensure_future(threads.run(cut_off))
    await asyncio.to_thread(begun.wait, 60)
    with django_db_blocker.block():
        go_on.set()
        with pytest.raises(RuntimeError):
            await work
    assert await threads.run(commit)
    assert done == ["committed"]
    await threads.run(lambda: connection.close())


@pytest.mark.parametrize("run", [in_thread, lambda work: in_db(work)()], ids=["in_thread", "sync_to_async"])
async def test_what_a_test_leaves_to_threads_ends_before_the_database_is_taken_away(run: Any) -> None:
    ended: list[str] = []

    def late() -> None:
        time.sleep(0.2)
        with transaction.atomic():
            record("project:x", "note", {})
        ended.append("late")

    def take_away() -> None:
        databases._empty(TransactionTestCase())
        connection.close()

    await run(lambda: tailer().subscribe(["project:x"], lambda _: None))
    left = asyncio.ensure_future(run(late))
    await asyncio.sleep(0)
    await asyncio.to_thread(take_away)
    assert ended == ["late"]
    assert not [thread for thread in threading.enumerate() if thread.name == "tailer"]
    await left
    assert not await run(Event.objects.exists)
