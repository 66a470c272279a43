"""The disk of the database is full: what is asked is refused whole, what hosts report is heard later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from django.db import OperationalError, connection
from django_q.models import OrmQ

from provisioning.common.context import RequestContext
from provisioning.common.database import outage
from provisioning.compute.launch.create import launch
from provisioning.compute.models import Instance, InstanceAction
from provisioning.hosts.reports import receive
from provisioning.quotas.models import Reservation
from tests.support import invariants
from tests.support.clouds import Cloud, base64_of, context, state_of
from tests.support.jobs import drain

MODELS = (Instance, InstanceAction, Reservation, OrmQ)


@contextmanager
def disk_full() -> Iterator[None]:
    """No page can be added to the database, as when there is no room for it."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")  # no free pages either
        cursor.execute("PRAGMA max_page_count = 1")  # that is: as many as there are
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA max_page_count = 1073741823")


def counts() -> list[int]:
    return [model._default_manager.count() for model in MODELS]


@pytest.mark.slow
def test_nothing_is_half_written_and_everything_goes_on_afterwards(shared_cloud: Cloud, alice: RequestContext) -> None:
    agent = shared_cloud.add_host("kelvin")
    instance = shared_cloud.launch(alice)
    drain()
    (build,) = agent.take()
    many = shared_cloud.request(min_count=8, max_count=8, user_data=base64_of(12_000))
    before = counts()
    with disk_full():
        with pytest.raises(OperationalError, match="full") as caught:
            launch(context("alice"), many)
        assert outage.is_outage(caught.value), "a client would be told of a bug and not to try again"
        assert counts() == before
        with suppress(OperationalError):
            agent.carry_out(build)
    agent.carry_out(build)
    receive(agent.host.id, agent.sent)
    assert state_of(instance) == ("active", None)
    shared_cloud.run()
    assert {row.vm_state for row in Instance.objects.all()} == {"active"}
    invariants.check()
