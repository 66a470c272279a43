"""A process that is killed behind any of its commits: whoever goes on ends the work, once, and nothing is left over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django_q.models import OrmQ

from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.rebuild import Rebuild, RebuildAction
from provisioning.compute.models import Instance, InstanceAction
from provisioning.hosts import commands
from provisioning.images.models import Image
from provisioning.jobs import registry
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.cast import verify
from tests.support import invariants
from tests.support.actions import service
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.scripted_agent import ScriptedAgent

Step = Callable[[Cloud, Instance], object]
MOST = 40
"""Commits that one action may take."""
APART = 1 if os.environ.get("TESTS_KILLED_EVERYWHERE") else 3
"""Every third of them, and the first; with the variable each one."""


class KilledError(BaseException):
    """The process is gone."""


class Death:
    """Comes behind the commit with this number; None: never."""

    def __init__(self) -> None:
        self.at: int | None = None

    def count(self) -> None:
        if self.at is not None:
            self.at -= 1
            if self.at < 0:
                self.at = None
                raise KilledError


@pytest.fixture
def death(monkeypatch: pytest.MonkeyPatch) -> Iterator[Death]:
    monkeypatch.setattr(ScriptedAgent, "in_batches", False)
    coming, leave = Death(), transaction.Atomic.__exit__

    def gone(self: transaction.Atomic, *reason: Any) -> None:
        leave(self, *reason)
        if reason[0] is None and not connection.in_atomic_block:
            coming.count()

    monkeypatch.setattr(transaction.Atomic, "__exit__", gone)
    yield coming
    coming.at = None


def work(cloud: Cloud) -> None:
    """As workers and agents do: a job is taken from the queue when it is done."""
    for _ in range(60):
        message = OrmQ.objects.order_by("id").first()
        if message is not None:
            envelope = verify(message.payload)
            registry.jobs[envelope.job].run(**envelope.payload)
            rows.finish(message.pk)
        elif not sum(agent.work() for agent in cloud.agents.values()):
            return
    raise AssertionError("the cloud does not come to rest")


def begun_anew(cloud: Cloud) -> None:
    """Agents come back with nothing but their guests, and are told again what has not ended."""
    for agent in cloud.agents.values():
        agent.hello()
        commands.send_again(agent.host.id)


def plain(name: str, *rest: Any, **more: Any) -> Step:
    return lambda cloud, server: service(name)(context("alice"), server.id, *rest, **more)


CASES: dict[str, tuple[list[Step], Step, str]] = {
    "resize": ([], plain("resize", "2"), "resized"),
    "confirm": ([plain("resize", "2")], plain("confirm_resize"), "active"),
    "revert": ([plain("resize", "2")], plain("revert_resize"), "active"),
    "image": ([], plain("create_image", "copy"), "active"),
    "shelve and offload": ([], plain("shelve"), "shelved_offloaded"),
    "unshelve": ([plain("shelve")], plain("unshelve"), "active"),
    "rebuild": (
        [],
        lambda cloud, server: RebuildAction.begin(context("alice"), server.id, Rebuild(str(cloud.image.id))),
        "active",
    ),
    "delete": ([], plain("delete"), "deleted"),
}

LIKE_RESIZE = {"confirm", "revert"}
"""Steps of a resize, which is killed at landing."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.deep] if case in LIKE_RESIZE else []) for case in CASES]
)
def test_killed_behind_any_commit(
    shared_cloud: Cloud, alice: RequestContext, settings: Any, death: Death, case: str
) -> None:
    settings.SHELVED_OFFLOAD_TIME = 0
    before, act, end = CASES[case]
    host = shared_cloud.add_host("kelvin", vcpus=8, memory_mb=10240)
    for number in range(0, MOST, APART):
        server = shared_cloud.launch(context("alice"))
        for step in (*before, act):
            work(shared_cloud)
            step(shared_cloud, server)
        death.at = number
        killed = False
        try:
            work(shared_cloud)
        except KilledError:
            killed = True
        death.at = None
        invariants.check()
        begun_anew(shared_cloud)
        work(shared_cloud)
        assert state_of(server) == (end, None), number
        assert not InstanceAction.objects.filter(finished_at=None).exists(), number
        assert Image.objects.filter(status__in=["queued", "saving"]).count() == 0, number
        if end != "deleted":
            delete(context("operator", ADMIN), server.id)
        work(shared_cloud)
        invariants.check_empty()
        assert host.guests == {}
        if not killed:
            assert number, "nothing was killed"
            return
    raise AssertionError("it never came to its end")
