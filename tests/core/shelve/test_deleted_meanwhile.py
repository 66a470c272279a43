"""The end of a shelving and the deletion of its image at the same moment: a shelved server keeps its only disk.

On SQLite, which has one writer at a time, and on PostgreSQL, which locks rows one by one.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.messages import Command
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions import shelve as shelving
from provisioning.compute.models import Instance
from provisioning.images import services as images
from provisioning.images.models import Image
from tests.core.test_parallel import in_threads
from tests.support.clouds import Cloud, context, state_of
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.both_databases("locks"), pytest.mark.slow]


def somebody_waits() -> bool:
    """Say whether another transaction waits for a lock; on SQLite every other one that writes does."""
    if connection.vendor == "sqlite":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


def shelving_at_a_host(cloud: Cloud, caller: RequestContext) -> tuple[ScriptedAgent, Instance, Command]:
    """Return a host, its server, and the command by which it makes the image of the shelving."""
    host = cloud.add_host("h1")
    server = cloud.launch(caller)
    cloud.run()
    shelving.Shelve.begin(caller, server.id)
    (command,) = host.take()
    return host, server, command


def test_an_image_is_not_deleted_while_its_server_goes_onto_its_shelf(
    shared_cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, server, command = shelving_at_a_host(shared_cloud, alice)
    body = command.body
    assert isinstance(body, SnapshotRequest)
    looked, deleted = threading.Event(), threading.Event()
    judged = shelving.judged

    def judged_while_it_is_deleted(*arguments: Any, **options: Any) -> Any:
        """Go on when the deletion has ended, or cannot go on before this does."""
        looked.set()
        while not deleted.wait(0.01) and not somebody_waits():
            pass
        return judged(*arguments, **options)

    monkeypatch.setattr(shelving, "judged", judged_while_it_is_deleted)

    def work(index: int) -> None:
        if index:
            host.carry_out(command)
            return
        assert looked.wait(60)
        try:
            images.delete(context("alice"), body.image_id)
        finally:
            deleted.set()

    refused, ended = in_threads(2, work)
    assert isinstance(refused, ConflictError)
    assert ended is None
    assert state_of(server) == ("shelved", None)
    kept = Instance.objects.get(id=server.id).snapshot_image_id
    assert Image.objects.get(id=kept).status == "active"


def test_an_image_that_was_deleted_just_before_leaves_the_server_where_it_is(
    shared_cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, server, command = shelving_at_a_host(shared_cloud, alice)
    holds_ready = shelving.holds_ready

    def ready_after_its_deletion(image_id: str) -> bool:
        images.delete(context("alice"), image_id)
        return holds_ready(image_id)

    monkeypatch.setattr(shelving, "holds_ready", ready_after_its_deletion)
    host.carry_out(command)
    assert state_of(server) == ("active", None)
    assert Instance.objects.get(id=server.id).snapshot_image_id is None
