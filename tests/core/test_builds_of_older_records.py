"""Servers that were being built when a copy of the records was made, and were built elsewhere since."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest
from provisioning.common.context import RequestContext
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.models import Instance, NewerGuest
from provisioning.compute.upkeep import adoption, reaper
from provisioning.hosts import restored
from provisioning.hosts.models import Host
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.copies import Copy
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.slow

ACTIVE = ("active", None)
NAMED = pytest.mark.doctor_finds("newer_guests")


@pytest.fixture(autouse=True)
def _nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)


def built_elsewhere(cloud: Cloud, alice: RequestContext, *, shelved: bool) -> tuple[Instance, Copy, ScriptedAgent]:
    """Let a host fail after the copy, so that the next one has the guest."""
    agents = [cloud.add_host(name) for name in ("a", "b")]
    server = cloud.launch(alice)
    if shelved:
        cloud.run()
        Shelve.begin(context("alice"), server.id)
        cloud.run()
        unshelve(context("alice"), server.id)
    drain()
    server.refresh_from_db()
    first = next(each for each in agents if each.host.id == server.host_id)
    copy = Copy()
    (command,) = [each for each in first.take() if isinstance(each.body, BuildRequest)]
    first.fail(command, "It does not fit.", retryable=True)
    cloud.run()
    other = next(each for each in agents if each is not first)
    assert (state_of(server), list(other.guests)) == (ACTIVE, [str(server.id)])
    copy.put_back()
    return server, copy, other


def builds(*agents: ScriptedAgent) -> int:
    return sum(isinstance(each.body, BuildRequest) for agent in agents for each in agent.take())


@NAMED
@pytest.mark.parametrize("shelved", [False, True], ids=["launch", "unshelve"])
def test_the_record_follows_the_guest_that_was_built(cloud: Cloud, alice: RequestContext, *, shelved: bool) -> None:
    """An operator decides where the image of the shelf may be the only disk."""
    server, _, other = built_elsewhere(cloud, alice, shelved=shelved)
    guest = other.guests[str(server.id)]
    restored.after_restore()
    for agent in cloud.agents.values():
        agent.hello()
    cloud.run()
    if shelved:
        assert (state_of(server)[0], NewerGuest.objects.get().outcome) == ("shelved_offloaded", "open")
        adoption.adopt(context("operator", ADMIN), NewerGuest.objects.get())
        cloud.run()
    assert (state_of(server), cloud.fresh(server).host_id) == (ACTIVE, other.host.id)
    assert other.guests[str(server.id)] == guest


@NAMED
@pytest.mark.parametrize("shelved", [False, True], ids=["launch", "unshelve"])
def test_no_second_guest_is_built_while_one_is_left_alone(
    cloud: Cloud, alice: RequestContext, *, shelved: bool
) -> None:
    """Nobody has run the command: a host alone does not get the server, and an operator decides."""
    server, _, other = built_elsewhere(cloud, alice, shelved=shelved)
    guest = other.guests[str(server.id)]
    other.hello()
    past = timezone.now() - timedelta(hours=1)
    Instance.objects.update(task_deadline=past)
    Host.objects.update(last_seen_at=timezone.now())
    reaper.reap()
    cloud.run()
    assert builds(*cloud.agents.values()) == 0
    assert other.guests[str(server.id)] == guest
    adoption.adopt(context("operator", ADMIN), NewerGuest.objects.get())
    cloud.run()
    assert (state_of(server), cloud.fresh(server).host_id) == (ACTIVE, other.host.id)
