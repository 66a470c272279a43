"""Where a server comes back to, and what else may happen to one on its shelf."""

from __future__ import annotations

from typing import Any

import pytest

from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.shelve import Offload, Shelve
from provisioning.compute.actions.soft_delete import Restore
from provisioning.compute.actions.unshelve import Destination, unshelve
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.services import server_groups
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from tests.core.shelve.shelves import nothing_taken
from tests.support.clouds import Cloud, next_request, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.slow


def test_a_zone_can_be_asked_for_and_let_go_of(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext
) -> None:
    cloud.add_host("far", zone="far")
    with pytest.raises(InvalidInputError, match="zone is not available"):
        unshelve(next_request(alice), offloaded.id, Destination(zone="nowhere"))
    unshelve(next_request(alice), offloaded.id, Destination(zone="far"))
    cloud.run()
    row = cloud.fresh(offloaded)
    assert row.host is not None
    assert (row.host.name, row.availability_zone) == ("far", "far")


def test_letting_go_of_the_zone(cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext) -> None:
    Instance.objects.filter(id=offloaded.id).update(availability_zone="gone")
    unshelve(alice, offloaded.id, Destination(zone=None))
    cloud.run()
    assert cloud.fresh(offloaded).availability_zone == ""
    assert state_of(offloaded) == ("active", None)


def test_a_host_is_asked_for_by_operators_alone(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    for name in ("h2", "h3"):
        cloud.add_host(name)
    with pytest.raises(ForbiddenError):
        unshelve(alice, offloaded.id, Destination(host="h3"))
    with pytest.raises(InvalidInputError, match="Compute host h9 could not be found"):
        unshelve(operator, offloaded.id, Destination(host="h9"))
    cloud.add_host("h5", zone="far")
    with pytest.raises(ConflictError, match="Host h3 is not in the availability zone far"):
        unshelve(operator, offloaded.id, Destination(zone="far", host="h3"))
    unshelve(operator, offloaded.id, Destination(host="h3"))
    cloud.run()
    row = cloud.fresh(offloaded)
    assert row.host is not None
    assert (row.host.name, row.requested_host) == ("h3", "")


def test_a_server_on_its_host_goes_nowhere_else(
    shelved: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    for to in (Destination(zone="nova"), Destination(zone=None)):
        with pytest.raises(ConflictError, match="it must be shelved_offloaded"):
            unshelve(alice, shelved.id, to)
    with pytest.raises(ConflictError, match="it must be shelved_offloaded"):
        unshelve(operator, shelved.id, Destination(host="h1"))


def test_the_groups_policy_holds_when_it_comes_back(
    cloud: Cloud, h1: ScriptedAgent, alice: RequestContext, operator: RequestContext
) -> None:
    group = server_groups.create_server_group(alice, "apart", "anti-affinity")
    cloud.add_host("h2")
    first, second = (
        cloud.launch(next_request(alice), name=name, scheduler_hints={"group": str(group.id)})
        for name in ("one", "two")
    )
    cloud.run()
    Shelve.begin(alice, first.id)
    cloud.run()
    Offload.begin(operator, first.id)
    cloud.run()
    away = cloud.agent_of(second).host
    Host.objects.exclude(id=away.id).update(enabled=False)
    unshelve(next_request(alice), first.id)
    cloud.run()
    nothing_taken(first)
    Host.objects.update(enabled=True)
    unshelve(next_request(alice), first.id)
    cloud.run()
    assert cloud.agent_of(first).host.id != away.id


def test_an_operator_sets_a_server_on_its_way_back_to_error_and_it_is_deleted(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    unshelve(alice, offloaded.id)
    drain()
    ResetState.begin(operator, offloaded.id, "error")
    cloud.run()
    delete(alice, offloaded.id)
    cloud.run()
    assert state_of(offloaded) == ("deleted", None)
    assert not Allocation.objects.filter(instance=offloaded).exists()
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "deleted"


def test_a_server_on_its_shelf_can_be_deleted_with_a_way_back(
    cloud: Cloud, offloaded: Instance, alice: RequestContext, settings: Any
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    delete(alice, offloaded.id)
    assert state_of(offloaded) == ("soft-delete", None)
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "active"
    Restore.begin(alice, offloaded.id)
    nothing_taken(offloaded)
    delete(next_request(alice), offloaded.id, force=True)
    assert state_of(offloaded) == ("deleted", None)
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "deleted"


def test_a_guest_of_a_server_on_its_shelf_that_turns_up_is_removed(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance
) -> None:
    h1.guests[str(offloaded.id)] = (offloaded.attempt - 1, PowerState.RUNNING)
    h1.hello()
    cloud.run()
    assert h1.guests == {}
    nothing_taken(offloaded)
