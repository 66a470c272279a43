"""Hosts that were away while older records gave a server's numbers again: their guests are newer, and stay."""

from __future__ import annotations

import pytest

from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Allocation, Instance, NewerGuest
from provisioning.compute.upkeep import adoption
from provisioning.hosts.models import Host
from tests.core.test_older_records import ACTIVE, NAMED, a, back, newer, off, server, told_to_destroy
from tests.support.clouds import Cloud, context, state_of
from tests.support.copies import Copy
from tests.support.landing import one_in
from tests.support.scripted_agent import ScriptedAgent

__all__ = ["a", "server"]


@pytest.fixture
def away(cloud: Cloud, server: Instance) -> ScriptedAgent:
    """A host with the server's guest, by records that are lost; it is away, and the records know another host's."""
    b = cloud.add_host("b")
    copy = Copy()
    Host.objects.filter(name="a").update(enabled=False)
    off(cloud, server)
    back(cloud, server)
    assert list(b.guests) == [str(server.id)]
    copy.put_back()
    Host.objects.filter(name="b").update(enabled=False)
    del cloud.agents["b"]
    cloud.agents["a"].guests[str(server.id)] = (1, 1)  # type: ignore[assignment]
    cloud.agents["a"].fences.clear()
    return b


@pytest.mark.slow
@pytest.mark.both_databases
@NAMED
@one_in(2, "rounds", [1, 2])
def test_a_guest_whose_number_another_host_has_got_since_is_left_alone(
    cloud: Cloud, server: Instance, away: ScriptedAgent, operator: RequestContext, rounds: int
) -> None:
    for _ in range(rounds):
        off(cloud, server)
        back(cloud, server)
    number = cloud.fresh(server).attempt
    assert number >= away.guests[str(server.id)][0] == 3
    for _ in range(2):
        away.hello()
        away.measured()
    assert told_to_destroy(away) == 0
    assert newer() == [("b", "open", 3, number)]
    cloud.agents["b"] = away
    adoption.adopt(operator, NewerGuest.objects.get())
    cloud.run()
    assert (state_of(server), cloud.fresh(server).host_id) == (ACTIVE, away.host.id)
    assert (cloud.agents["a"].guests, Allocation.objects.get().host_id) == ({}, away.host.id)
    off(cloud, server)
    back(cloud, server)
    away.hello()
    assert state_of(server) == ACTIVE


@pytest.mark.slow
def test_it_stays_though_the_server_was_deleted_meanwhile(
    cloud: Cloud, server: Instance, away: ScriptedAgent, operator: RequestContext
) -> None:
    off(cloud, server)
    back(cloud, server)
    delete(context("alice"), server.id)
    cloud.run()
    away.hello()
    assert told_to_destroy(away) == 0
    cloud.agents["b"] = away
    adoption.discard(operator, NewerGuest.objects.get())
    cloud.run()
    assert not away.guests


@pytest.mark.slow
@NAMED
def test_a_guest_that_an_operator_had_the_record_follow_is_removed_once_the_server_has_left(
    cloud: Cloud, server: Instance, away: ScriptedAgent, operator: RequestContext
) -> None:
    off(cloud, server)
    back(cloud, server)
    away.hello()
    adoption.adopt(operator, NewerGuest.objects.get())
    cloud.agents["b"] = away
    cloud.run()
    off(cloud, server)
    back(cloud, server)
    del cloud.agents["b"]
    away.guests[str(server.id)] = (3, 1)  # type: ignore[assignment]
    away.hello()
    assert told_to_destroy(away) == 1
