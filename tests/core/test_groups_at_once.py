"""Servers of a group that are placed at the same moment by several workers: the policy holds, the losers plan again.

On SQLite, which has one writer at a time, and on PostgreSQL, which locks rows one by one.
"""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, OverQuotaError
from provisioning.compute.flavors.sizes import room_of
from provisioning.compute.host_link.allocations import claim_first
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import Aggregate, Instance, SchedulingDecision, ServerGroup
from provisioning.compute.services import aggregates
from provisioning.compute.services.hosts import change_host, forget_host
from provisioning.compute.services.server_groups import create_server_group, delete_server_group, group_for_launch
from provisioning.hosts.models import Host
from provisioning.quotas.services.limits import set_limit
from tests.core.test_parallel import in_threads, unexpected
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain

pytestmark = [pytest.mark.both_databases("locks"), pytest.mark.slow]
ROUNDS = [0, *(pytest.param(round_, marks=pytest.mark.deep) for round_ in (1, 2))]

HOSTS = ("kelvin", "ohm", "tesla")


def servers(cloud: Cloud, group: ServerGroup, count: int) -> list[Instance]:
    """Launched and not placed yet, in the group."""
    made = [cloud.launch(context("alice")) for _ in range(count)]
    Instance.objects.filter(id__in=[each.id for each in made]).update(server_group=group)
    return made


def place_at_once(instances: list[Instance]) -> None:
    results = in_threads(len(instances), lambda index: schedule(str(instances[index].id), 1))
    assert not unexpected(results), results


def spread(instances: list[Instance]) -> list[int]:
    """How many are on each host that has any."""
    placed = Instance.objects.filter(id__in=[each.id for each in instances], host__isnull=False)
    return sorted(Counter(placed.values_list("host__name", flat=True)).values())


@pytest.mark.parametrize("round_", ROUNDS)
def test_no_two_anti_affine_servers_share_a_host(shared_cloud: Cloud, alice: RequestContext, round_: int) -> None:
    for name in HOSTS:
        shared_cloud.add_host(name)
    group = create_server_group(alice, "apart", "anti-affinity")
    instances = servers(shared_cloud, group, 6)
    place_at_once(instances)
    assert spread(instances) == [1, 1, 1]
    losers = [each for each in instances if state_of(each) == ("error", None)]
    assert len(losers) == 3
    for loser in losers:
        decision = SchedulingDecision.objects.get(instance=loser)
        assert decision.filters[-1]["name"] == "ServerGroupAntiAffinityFilter"
        assert decision.filters[-1]["reason"] == "3 hosts already have a server of the group"
        assert "3 hosts already have a server of the group" in loser.faults.get().message
    invariants.check()


def test_a_group_may_have_so_many_on_each_host(shared_cloud: Cloud, alice: RequestContext) -> None:
    for name in HOSTS[:2]:
        shared_cloud.add_host(name)
    group = create_server_group(alice, "apart", "anti-affinity", 2)
    instances = servers(shared_cloud, group, 6)
    place_at_once(instances)
    assert spread(instances) == [2, 2]


@pytest.mark.parametrize("round_", ROUNDS)
def test_all_affine_servers_are_on_one_host(shared_cloud: Cloud, alice: RequestContext, round_: int) -> None:
    for name in HOSTS:
        shared_cloud.add_host(name)
    group = create_server_group(alice, "together", "affinity")
    instances = servers(shared_cloud, group, 5)
    place_at_once(instances)
    assert spread(instances) == [5]


def test_a_host_that_got_a_member_in_the_meantime_is_passed_over(shared_cloud: Cloud, alice: RequestContext) -> None:
    """The claim looks again, whatever the ranking said before."""
    first = shared_cloud.add_host("kelvin").host
    second = shared_cloud.add_host("ohm").host
    group = create_server_group(alice, "apart", "anti-affinity")
    one, two = servers(shared_cloud, group, 2)
    Instance.objects.filter(id=one.id).update(host=first)
    two.refresh_from_db()
    with transaction.atomic():
        assert claim_first(room_of(two.flavor), [first.id, second.id], two) == (second.id, 2)
        transaction.set_rollback(True)
    with transaction.atomic():
        assert claim_first(room_of(two.flavor), [first.id], two) == (None, 1)
    Instance.objects.filter(id=one.id).update(host=None)


def test_a_group_that_is_deleted_while_its_servers_are_placed_binds_no_more(
    shared_cloud: Cloud, alice: RequestContext
) -> None:
    for name in HOSTS[:2]:
        shared_cloud.add_host(name)
    group = create_server_group(alice, "apart", "anti-affinity")
    instances = servers(shared_cloud, group, 5)

    def work(index: int) -> None:
        if index == 5:
            delete_server_group(context("alice"), group.id)
        else:
            schedule(str(instances[index].id), 1)

    assert not unexpected(in_threads(6, work))
    assert not ServerGroup.objects.exists()
    assert not Instance.objects.exclude(server_group=None).exists()
    invariants.check()


def test_the_last_places_of_a_group_go_to_as_many_launches(shared_cloud: Cloud, alice: RequestContext) -> None:
    group = create_server_group(alice, "few", "anti-affinity")
    set_limit(alice.project_id, "server_group_members", 2)
    instances = [shared_cloud.launch(context("alice")) for _ in range(6)]

    def join(index: int) -> None:
        with transaction.atomic():
            held = group_for_launch(context("alice"), group.id)
            Instance.objects.filter(id=instances[index].id).update(server_group=held)

    results = in_threads(6, join)
    assert sum(isinstance(item, OverQuotaError) for item in results) == 4
    assert not unexpected(results)
    assert group.instances.count() == 2


def test_nothing_is_placed_on_a_host_that_is_forgotten_at_that_moment(
    shared_cloud: Cloud, alice: RequestContext
) -> None:
    gone = shared_cloud.add_host("kelvin").host
    shared_cloud.add_host("ohm")
    instances = [shared_cloud.launch(context("alice")) for _ in range(5)]
    operator = context("operator", ADMIN)

    def work(index: int) -> None:
        if index == 5:
            forget_host(operator, gone.id)
        else:
            schedule(str(instances[index].id), 1)

    results = in_threads(6, work)
    assert not unexpected(results)
    on_it = Instance.objects.filter(host=gone).count()
    assert (results[5] is None) == (on_it == 0), "either it had servers, or it is gone"
    assert {state_of(each)[0] for each in instances} == {"building"}
    invariants.check()
    drain()


def test_nothing_is_placed_on_a_host_that_is_forced_down(shared_cloud: Cloud, alice: RequestContext) -> None:
    host = shared_cloud.add_host("kelvin").host
    instance = shared_cloud.launch(alice)
    change_host(context("operator", ADMIN), host.id, forced_down=True)
    with transaction.atomic():
        assert claim_first(room_of(instance.flavor), [host.id], instance) == (None, 1)
    schedule(str(instance.id), 1)
    assert state_of(instance) == ("error", None)
    assert "1 of 1 host does not answer" in instance.faults.get().message


@pytest.mark.parametrize("round_", ROUNDS)
def test_no_server_is_placed_outside_its_zone_by_a_host_that_moves(
    shared_cloud: Cloud, alice: RequestContext, round_: int
) -> None:
    moving = shared_cloud.add_host("kelvin").host
    shared_cloud.add_host("ohm")
    operator = context("operator", ADMIN)
    number = aggregates.create_aggregate(operator, "rack", "moon").pk
    instances = [shared_cloud.launch(context("alice"), availability_zone="nova") for _ in range(5)]

    def work(index: int) -> None:
        if index == 5:
            aggregates.add_host(operator, number, "kelvin")
        else:
            schedule(str(instances[index].id), 1)

    results = in_threads(6, work)
    assert not unexpected(results)
    zone = Host.objects.get(id=moving.id).availability_zone
    on_it = Instance.objects.filter(host=moving).count()
    assert (zone, isinstance(results[5], ConflictError)) == (("nova", True) if on_it else ("moon", False))
    assert {state_of(each)[0] for each in instances} == {"building"}
    invariants.check()


def test_a_host_is_put_into_one_zone_only(shared_cloud: Cloud) -> None:
    host = shared_cloud.add_host("kelvin").host
    operator = context("operator", ADMIN)
    numbers = [aggregates.create_aggregate(operator, f"rack {zone}", f"zone-{zone}").pk for zone in range(5)]
    results = in_threads(5, lambda index: aggregates.add_host(operator, numbers[index], "kelvin"))
    assert not unexpected(results)
    assert sum(isinstance(item, ConflictError) for item in results) == 4
    (held,) = Aggregate.objects.filter(hosts=host)
    assert Host.objects.get().availability_zone == held.availability_zone
