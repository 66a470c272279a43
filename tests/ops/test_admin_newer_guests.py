"""The Django admin's page of guests that are newer than their records."""

from __future__ import annotations

import pytest
from django.test import Client

from compute_agent.contract.power import PowerState
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.models import Instance, NewerGuest
from provisioning.hosts.models import HostCommand
from tests.ops.test_admin import act
from tests.support.cast import Person
from tests.support.clouds import Cloud, state_of
from tests.support.standing import standing

PAGE = "/admin/compute/newerguest/"


@pytest.fixture
@standing
def row(alice: Person, cloud: Cloud) -> NewerGuest:
    """A server on its shelf, whose guest runs all the same."""
    server = cloud.launch(alice.context)
    cloud.run()
    Shelve.begin(alice.context, server.id)
    cloud.run()
    assert state_of(server) == ("shelved_offloaded", None)
    (agent,) = cloud.agents.values()
    agent.guests[str(server.id)] = (7, PowerState.RUNNING)
    agent.fences[str(server.id)] = 7
    agent.hello()
    return NewerGuest.objects.get()


@pytest.mark.slow
def test_the_record_follows_the_guest_after_a_question(admin: Client, cloud: Cloud, row: NewerGuest) -> None:
    act(admin, PAGE, "acknowledge", [row])
    act(admin, PAGE, "adopt", [row])
    assert state_of(row.instance) == ("shelved_offloaded", None)
    act(admin, PAGE, "adopt", [row], confirmed="yes")
    assert state_of(row.instance) == ("active", None)
    assert Instance.objects.get().host_id == row.host_id
    assert NewerGuest.objects.get().acknowledged_at is None
    act(admin, PAGE, "acknowledge", [row])
    assert NewerGuest.objects.get().acknowledged_at is not None


@pytest.mark.slow
def test_a_guest_is_removed_after_a_question(admin: Client, cloud: Cloud, row: NewerGuest) -> None:
    before = HostCommand.objects.count()
    act(admin, PAGE, "discard", [row])
    assert HostCommand.objects.count() == before
    act(admin, PAGE, "discard", [row], confirmed="yes")
    cloud.run()
    (agent,) = cloud.agents.values()
    assert not agent.guests
    assert state_of(row.instance) == ("shelved_offloaded", None)
