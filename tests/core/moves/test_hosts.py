"""The two hosts of a move: what is claimed on each, and who may claim how much."""

from __future__ import annotations

import pytest
from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.flavors.sizes import flavor_copy
from provisioning.compute.models import Allocation, Instance, Migration, MoveAllocation
from provisioning.compute.moves import hosts
from provisioning.compute.moves.targets import MoveRequest, rank_targets, target_choices, why_none
from provisioning.compute.state_machine import state
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host
from tests.support.clouds import GIB, Cloud, state_of

pytestmark = pytest.mark.django_db

NOTHING, SMALL, BIG = (0, 0, 0, 0), (1, 1024, 2, 1), (4, 4096, 20, 1)


def taken(name: str) -> tuple[int, int, int, int]:
    host = Host.objects.get(name=name)
    return host.vcpus_allocated, host.memory_mb_allocated, host.disk_gb_allocated, host.instances_allocated


def claimed(operator: RequestContext, request: MoveRequest) -> Migration | None:
    with transaction.atomic():
        state.lock([request.instance.id])
        return hosts.claim_target(operator, request, rank_targets(request), "migration")


@pytest.mark.doctor_finds("quota", "bound_ports")  # the record is changed by hand
def test_both_hosts_hold_the_server_until_one_is_released(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    big = flavor_copy(cloud.big, GIB)
    migration = claimed(operator, MoveRequest(running, flavor=big))
    assert migration is not None
    assert (migration.source_compute, migration.dest_compute) == ("h1", "h2")
    assert (taken("h1"), taken("h2")) == (SMALL, BIG)

    assert hosts.second_of(running.id) is not None
    target = Host.objects.get(name="h2")
    Instance.objects.filter(id=running.id).update(host=target, flavor=big, attempt=running.attempt + 1)
    hosts.exchange(cloud.fresh(running), None)
    first, second = Allocation.objects.get(instance=running), MoveAllocation.objects.get(instance=running)
    assert (first.host_id, first.vcpus, first.attempt) == (target.id, 4, running.attempt + 1)
    assert (second.host_id, second.vcpus, second.attempt) == (running.host_id, 1, running.attempt)
    assert (taken("h1"), taken("h2")) == (SMALL, BIG)

    assert hosts.release_second(running.id)
    assert not hosts.release_second(running.id)
    assert (taken("h1"), taken("h2")) == (NOTHING, BIG)
    Migration.objects.update(status="completed")
    cloud.agents["h1"].guests.clear()


def test_a_deleted_server_leaves_both_hosts(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    claimed(operator, MoveRequest(running))
    cloud.agents["h2"].guests[str(running.id)] = (running.attempt, 1)
    delete(operator, running.id)
    cloud.agents["h1"].work()
    assert state_of(running) == ("deleted", None)
    assert taken("h2") == SMALL, "until its host confirms"
    cloud.run()
    assert (taken("h1"), taken("h2")) == (NOTHING, NOTHING)
    assert not cloud.agents["h2"].guests
    assert not MoveAllocation.objects.exists()


def test_a_host_is_asked_again_after_a_move_that_has_ended(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    claimed(operator, MoveRequest(running))
    Migration.objects.update(status="error")
    reap()
    cloud.run()
    assert (taken("h1"), taken("h2")) == (SMALL, NOTHING)


def test_a_guest_on_the_second_host_stays_while_the_server_moves(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    claimed(operator, MoveRequest(running))
    h2 = cloud.agents["h2"]
    h2.guests[str(running.id)] = (running.attempt, 1)
    h2.hello()
    assert not h2.take()
    Migration.objects.update(status="error")
    h2.hello()
    cloud.run()
    assert not h2.guests


def test_operators_see_each_host_with_its_reason(cloud: Cloud, running: Instance) -> None:
    cloud.add_host("h3", vcpus=1, memory_mb=512)
    cloud.add_host("h4")
    Host.objects.filter(name="h4").update(enabled=False)
    request = MoveRequest(running, unfit={"h5": "Its agent is too old."})
    cloud.add_host("h5")
    choices = target_choices(request)
    assert next((each.name, each.rank) for each in choices) == ("h2", 1)
    reasons = {each.name: each.reason for each in choices}
    assert reasons["h2"] == ""
    assert "is on this host" in reasons["h1"]
    assert "memory" in reasons["h3"]
    assert "disabled" in reasons["h4"]
    assert reasons["h5"] == "Its agent is too old."
    result = rank_targets(request)
    assert [one.host.name for one in result.decision.ranked] == ["h2"]
    assert why_none(result, request) == ""


def test_why_no_host_can_take_it(cloud: Cloud, running: Instance) -> None:
    def why(**changes: object) -> str:
        request = MoveRequest(running, **changes)  # type: ignore[arg-type]
        return why_none(rank_targets(request), request)

    assert "too old" in why(unfit={"h2": "Its agent is too old."})
    assert "too old" in why(host="h2", unfit={"h2": "Its agent is too old."})
    Host.objects.filter(name="h2").update(forced_down=True)
    assert "does not answer" in why(host="h2")
    Host.objects.filter(name="h2").delete()
    assert why() == "There is no other host."
