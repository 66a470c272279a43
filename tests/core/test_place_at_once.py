"""Many claims at once against limits that are no room: servers of a host, ratios of aggregates that change meanwhile.

On SQLite, which has one writer at a time, and on PostgreSQL, which locks rows one by one.
"""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import transaction
from pytest_django import Settings

from provisioning.common.context import RequestContext
from provisioning.compute.flavors.sizes import Room
from provisioning.compute.host_link.allocations import claim_room
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import SchedulingDecision
from provisioning.compute.services import aggregates
from provisioning.hosts import audits
from provisioning.hosts.models import CachedImage, Host
from tests.core.test_parallel import in_threads, unexpected
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of

pytestmark = [pytest.mark.both_databases("locks"), pytest.mark.slow]


def test_a_host_gets_no_more_servers_than_it_may_have(
    shared_cloud: Cloud, operator: RequestContext, settings: Settings
) -> None:
    host = shared_cloud.add_host("kelvin").host
    settings.SCHEDULER_MAX_INSTANCES_PER_HOST = 3

    def take(_: int) -> bool:
        with transaction.atomic():
            return claim_room(Room(0, 1, 0), host.id)

    results = in_threads(8, take)
    assert Counter(map(str, results)) == {"True": 3, "False": 5}
    Host.objects.update(memory_mb_allocated=0, instances_allocated=0)


@pytest.mark.parametrize("driver", ["filter", "chance", "simple"])
def test_schedulers_side_by_side_obey_the_number_of_servers(
    shared_cloud: Cloud, alice: RequestContext, settings: Settings, driver: str
) -> None:
    """Six launches at once over two hosts of two servers: four have a place, two are told why not."""
    settings.SCHEDULER_DRIVER = driver
    settings.SCHEDULER_MAX_INSTANCES_PER_HOST = 2
    for name in ("kelvin", "ohm"):
        shared_cloud.add_host(name)
    servers = [shared_cloud.launch(context("alice")) for _ in range(6)]
    assert not unexpected(in_threads(6, lambda index: schedule(str(servers[index].id), 1)))
    assert Counter(state_of(server) for server in servers) == {("building", "spawning"): 4, ("error", None): 2}
    assert set(Host.objects.values_list("instances_allocated", flat=True)) == {2}
    decisions = SchedulingDecision.objects.filter(instance__in=servers)
    assert Counter(decisions.values_list("driver", "host_name")) == {
        (driver, "kelvin"): 2,
        (driver, "ohm"): 2,
        (driver, ""): 2,
    }
    invariants.check()


def test_aggregates_that_change_at_once_leave_the_smallest(shared_cloud: Cloud, operator: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        shared_cloud.add_host(name)
    made = [aggregates.create_aggregate(operator, f"a{number}") for number in range(4)]
    for each in made:
        for name in ("kelvin", "ohm"):
            aggregates.add_host(operator, each.pk, name)

    def say(index: int) -> None:
        caller = context("operator", ADMIN)
        aggregates.set_aggregate_metadata(caller, made[index].pk, {"ram_allocation_ratio": f"{index + 1}.5"})

    assert not [result for result in in_threads(4, say) if result is not None]
    assert set(Host.objects.values_list("aggregate_ram_ratio", flat=True)) == {1.5}


def test_two_audits_of_a_host_at_once(shared_cloud: Cloud) -> None:
    host = shared_cloud.add_host("kelvin").host
    images = [f"{number:08}-0000-4000-8000-000000000000" for number in range(20)]
    assert not [result for result in in_threads(4, lambda _: audits.record_images(host.id, images)) if result]
    assert CachedImage.objects.filter(host=host).count() == 20
