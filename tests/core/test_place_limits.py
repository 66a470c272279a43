"""How much of a host may be given: the same number for the claim, the scheduler's rows and the pages, whatever the
ratios; what aggregates say holds; what nobody asks for is not read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pytest_django import Settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.compute.flavors.sizes import Room
from provisioning.compute.host_link.allocations import claim_room
from provisioning.compute.launch.decisions import options_now
from provisioning.compute.models import Aggregate, AggregateHost, Instance
from provisioning.compute.selectors.host_rows import host_states, hosts_for
from provisioning.compute.selectors.hosts import state_of as as_the_scheduler_sees
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.services import aggregates
from provisioning.hosts.models import CachedImage, Host
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain

pytestmark = pytest.mark.both_databases

SOME = examples(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
odd = st.floats(min_value=1e-6, max_value=1000, allow_nan=False) | st.sampled_from([0.1, 0.3, 0.7, 1.1, 1 / 3, 2.9])
maybe = st.none() | odd
total = st.integers(0, 3_000_000)


def aggregate(operator: RequestContext, name: str, *hosts: str, **metadata: str) -> int:
    made = aggregates.create_aggregate(operator, name)
    if metadata:
        aggregates.set_aggregate_metadata(operator, made.pk, dict(metadata))
    for host in hosts:
        aggregates.add_host(operator, made.pk, host)
    return int(made.pk)


def columns(name: str) -> tuple[Any, ...]:
    """What its aggregates say of a host, in its row."""
    return Host.objects.values_list(
        "aggregate_cpu_ratio",
        "aggregate_ram_ratio",
        "aggregate_disk_ratio",
        "aggregate_max_instances",
        "aggregate_max_io_ops",
    ).get(name=name)


# ----- one number for all ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@SOME
@given(
    totals=st.tuples(total, total, total),
    reserved=st.tuples(total, total),
    own=st.tuples(odd, odd, odd),
    by_aggregates=st.tuples(maybe, maybe, maybe),
)
def test_rows_and_models_say_the_same(
    db: None,
    totals: tuple[int, int, int],
    reserved: tuple[int, int],
    own: tuple[float, float, float],
    by_aggregates: tuple[float | None, float | None, float | None],
) -> None:
    Host.objects.all().delete()
    host = Host.objects.create(
        name="kelvin",
        vcpus_total=totals[0],
        memory_mb_total=totals[1],
        disk_gb_total=totals[2],
        reserved_memory_mb=reserved[0],
        reserved_disk_gb=reserved[1],
        cpu_allocation_ratio=own[0],
        ram_allocation_ratio=own[1],
        disk_allocation_ratio=own[2],
        aggregate_cpu_ratio=by_aggregates[0],
        aggregate_ram_ratio=by_aggregates[1],
        aggregate_disk_ratio=by_aggregates[2],
        last_seen_at=timezone.now(),
        enabled=False,
        failed_builds=3,
        aggregate_max_instances=7,
        architecture="x86_64",
        hypervisor_type="QEMU",
        hypervisor_version=8_002_000,
    )
    [row] = host_states(["hardware"])
    model = as_the_scheduler_sees(Host.objects.get(), timezone.now())
    assert row.id == model.id == host.id
    assert row[1:] == model[1:]


@pytest.mark.slow
@SOME
@given(room=st.integers(1, 100_000), ratio=odd, amount=st.integers(1, 100_000))
def test_the_claim_takes_what_the_rows_say_and_no_more(db: None, room: int, ratio: float, amount: int) -> None:
    """A host with exactly as much left as is asked for is taken, and one with one less is not."""
    Host.objects.all().delete()
    host = Host.objects.create(
        name="kelvin",
        vcpus_total=100_000,
        memory_mb_total=room,
        disk_gb_total=room,
        reserved_memory_mb=0,
        ram_allocation_ratio=ratio,
        disk_allocation_ratio=ratio,
    )
    [state] = host_states()
    for column, limit in (("memory_mb", state.memory_mb_limit), ("disk_gb", state.disk_gb_limit)):
        requested = Room(1, amount if column == "memory_mb" else 0, amount if column == "disk_gb" else 0)
        for left, fits in ((amount, limit >= amount), (amount - 1, False)):
            held = max(limit - left, 0)
            Host.objects.filter(id=host.id).update(**{"vcpus_allocated": 0, f"{column}_allocated": held})
            assert claim_room(requested, host.id) == (fits and limit - held >= amount), (column, limit, left)
        Host.objects.filter(id=host.id).update(memory_mb_allocated=0, disk_gb_allocated=0)


def test_a_host_that_keeps_back_more_than_it_has_takes_nothing(db: None) -> None:
    Host.objects.create(name="kelvin", vcpus_total=8, memory_mb_total=100, reserved_memory_mb=301, disk_gb_total=9)
    host = Host.objects.get()
    [state] = host_states()
    assert state.memory_mb_limit == as_the_scheduler_sees(host, timezone.now()).memory_mb_limit == -201
    assert state.free_memory_mb == 0
    assert not claim_room(Room(1, 0, 1), host.id)


@pytest.mark.parametrize(
    ("changes", "alive"),
    [
        ({}, True),
        ({"last_seen_at": None}, False),
        ({"forced_down": True}, False),
        ({"last_seen_at": datetime(2020, 1, 1, tzinfo=UTC)}, False),
    ],
)
def test_who_is_alive(cloud: Cloud, changes: dict[str, Any], alive: bool) -> None:
    cloud.add_host("kelvin")
    Host.objects.update(**changes)
    [state] = host_states()
    assert bool(state.alive) is as_the_scheduler_sees(Host.objects.get(), timezone.now()).alive is alive


def test_one_host_alone(cloud: Cloud) -> None:
    cloud.add_host("kelvin")
    ohm = cloud.add_host("ohm").host
    assert [state.name for state in host_states(only=ohm.id)] == ["ohm"]


# ----- what aggregates say --------------------------------------------------------------------------------------------


def test_the_smallest_number_of_several_aggregates_holds(cloud: Cloud, operator: RequestContext) -> None:
    cloud.add_host("kelvin")
    cloud.add_host("ohm")
    first = aggregate(operator, "first", "kelvin", cpu_allocation_ratio="8", max_instances_per_host="9")
    second = aggregate(operator, "second", "kelvin", "ohm", cpu_allocation_ratio="2.5", ram_allocation_ratio="1.5")
    assert columns("kelvin") == (2.5, 1.5, None, 9, None)
    assert columns("ohm") == (2.5, 1.5, None, None, None)
    states = {state.name: state for state in host_states()}
    assert (states["kelvin"].vcpus_limit, states["kelvin"].memory_mb_limit) == (20, 12_288)
    assert states["kelvin"].max_instances == 9
    aggregates.remove_host(operator, second, "kelvin")
    assert columns("kelvin") == (8, None, None, 9, None)
    aggregates.set_aggregate_metadata(
        operator, first, {"cpu_allocation_ratio": None, "max_io_ops_per_host": "4", "disk_allocation_ratio": "0.5"}
    )
    assert columns("kelvin") == (None, None, 0.5, 9, 4)
    aggregates.remove_host(operator, first, "kelvin")
    assert columns("kelvin") == (None,) * 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cpu_allocation_ratio", "many"),
        ("ram_allocation_ratio", "nan"),
        ("disk_allocation_ratio", "0"),
        ("cpu_allocation_ratio", "-1"),
        ("cpu_allocation_ratio", "1001"),
        ("max_instances_per_host", "2.5"),
        ("max_instances_per_host", "inf"),
        ("max_io_ops_per_host", "-1"),
        ("max_io_ops_per_host", "99999999999"),
        ("max_io_ops_per_host", ""),
    ],
)
def test_what_is_no_number_is_refused(cloud: Cloud, operator: RequestContext, key: str, value: str) -> None:
    cloud.add_host("kelvin")
    made = aggregate(operator, "first", "kelvin", cpu_allocation_ratio="2")
    with pytest.raises(InvalidInputError) as caught:
        aggregates.set_aggregate_metadata(operator, made, {"other": "1", key: value})
    assert caught.value.field == key
    assert Aggregate.objects.get(pk=made).metadata == {"cpu_allocation_ratio": "2"}
    assert columns("kelvin")[0] == 2


def test_numbers_from_before_that_nobody_can_obey_are_left_out(cloud: Cloud, operator: RequestContext) -> None:
    cloud.add_host("kelvin")
    made = aggregate(operator, "first", ram_allocation_ratio="2")
    Aggregate.objects.update(metadata={"ram_allocation_ratio": "2", "cpu_allocation_ratio": "lots"})
    aggregates.add_host(operator, made, "kelvin")
    assert columns("kelvin") == (None, 2, None, None, None)


@pytest.mark.slow
def test_servers_get_what_an_aggregate_allows(cloud: Cloud, operator: RequestContext, alice: RequestContext) -> None:
    """A host of one gigabyte takes two servers of one when its aggregate says so; the third is told why not."""
    cloud.add_host("kelvin", memory_mb=1024)
    aggregate(operator, "dense", "kelvin", ram_allocation_ratio="2.0")
    servers = [cloud.launch(context("alice")) for _ in range(3)]
    cloud.run()
    assert sorted(state_of(server)[0] for server in servers) == ["active", "active", "error"]


@pytest.mark.slow
def test_a_host_has_no_more_servers_than_its_aggregate_says(
    cloud: Cloud, operator: RequestContext, settings: Settings
) -> None:
    settings.SCHEDULER_MAX_INSTANCES_PER_HOST = 1
    cloud.add_host("kelvin")
    cloud.add_host("ohm")
    aggregate(operator, "roomy", "ohm", max_instances_per_host="2")
    servers = [cloud.launch(context("alice")) for _ in range(4)]
    cloud.run()
    placed = Instance.objects.filter(host__isnull=False).order_by("host__name").values_list("host__name", flat=True)
    assert list(placed) == ["kelvin", "ohm", "ohm"]
    loser = next(server for server in servers if state_of(server)[0] == "error")
    assert "as many servers as one may have" in loser.faults.get().message


def test_the_claim_itself_counts_servers(cloud: Cloud, operator: RequestContext, settings: Settings) -> None:
    host = cloud.add_host("kelvin").host
    small = Room(1, 1, 1)
    settings.SCHEDULER_MAX_INSTANCES_PER_HOST = 1
    assert claim_room(small, host.id)
    assert not claim_room(small, host.id)
    aggregate(operator, "roomy", "kelvin", max_instances_per_host="2")
    assert claim_room(small, host.id)
    assert not claim_room(small, host.id)
    settings.SCHEDULER_FILTERS = ["RamFilter"]  # an operator who does not ask is not answered
    assert claim_room(small, host.id)
    Host.objects.update(vcpus_allocated=0, memory_mb_allocated=0, disk_gb_allocated=0, instances_allocated=0)


@pytest.mark.slow
def test_a_host_that_is_busy_building_takes_no_more(cloud: Cloud, operator: RequestContext, settings: Settings) -> None:
    cloud.add_host("kelvin")
    aggregate(operator, "slow", "kelvin", max_io_ops_per_host="1")
    first, second = cloud.launch(context("alice")), cloud.launch(context("alice"))
    drain()
    assert state_of(first) == ("building", "spawning")
    assert state_of(second) == ("error", None)
    cloud.run()
    third = cloud.launch(context("alice"))
    cloud.run()
    assert state_of(third) == ("active", None)


# ----- facts ----------------------------------------------------------------------------------------------------------


def statements(*facts: str, **options: Any) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        host_states(facts, **options)
    return [query["sql"] for query in queries]


def test_facts_are_read_only_when_they_are_asked_for(cloud: Cloud) -> None:
    image = cloud.image.id
    cloud.add_host("kelvin")
    assert len(statements()) == 1
    assert len(statements("io_ops")) == 2
    assert len(statements("with_image")) == 1  # of no image
    assert len(statements("with_image", image_id=image)) == 2
    assert len(statements("aggregate_metadata")) == 3
    assert len(statements("cpu_info")) == 2
    assert len(statements("hardware")) == 1
    assert "cpu_info" not in statements()[0]
    assert "architecture" not in statements()[0]
    assert host_states()[0].architecture == "" != host_states(["hardware"])[0].hypervisor_type


def test_the_number_of_statements_does_not_grow_with_the_hosts(cloud: Cloud, operator: RequestContext) -> None:
    every = ("io_ops", "with_image", "aggregate_metadata", "cpu_info", "traits")
    cloud.add_host("kelvin")
    before = len(statements(*every, image_id=cloud.image.id))
    cloud.add_host("ohm")
    cloud.add_host("tesla")
    aggregate(operator, "first", "ohm", "tesla", ssd="true")
    assert len(statements(*every, image_id=cloud.image.id)) == before


@pytest.mark.slow
def test_what_the_facts_say(cloud: Cloud, operator: RequestContext, alice: RequestContext) -> None:
    kelvin, ohm = cloud.add_host("kelvin").host, cloud.add_host("ohm").host
    aggregate(operator, "first", "kelvin", "ohm", ssd="true", rack="1")
    aggregate(operator, "second", "ohm", rack="2")
    CachedImage.objects.create(host=ohm, image_id=cloud.image.id)
    Host.objects.filter(id=kelvin.id).update(cpu_info={"vendor": "AMD"}, traits=["HW_A"], custom_traits=["CUSTOM_B"])
    server = cloud.launch(alice)
    cloud.run()
    Instance.objects.filter(id=server.id).update(host=ohm, task_state="networking")
    requested = ("io_ops", "with_image", "aggregate_metadata", "cpu_info", "traits")
    states = {state.name: state for state in host_states(requested, image_id=cloud.image.id)}
    assert {name: state.io_ops for name, state in states.items()} == {"kelvin": 0, "ohm": 1}
    assert {name: state.has_image for name, state in states.items()} == {"kelvin": False, "ohm": True}
    assert states["kelvin"].aggregate_metadata == {"ssd": {"true"}, "rack": {"1"}}
    assert states["ohm"].aggregate_metadata == {"ssd": {"true"}, "rack": {"1", "2"}}
    assert states["kelvin"].cpu_info == {"vendor": "AMD"}
    assert states["ohm"].cpu_info == {}
    assert states["kelvin"].traits == {"HW_A", "CUSTOM_B"}
    assert len(states["ohm"].facts.cpu_info) == len(list(states["ohm"].facts.cpu_info)) == 2
    Instance.objects.filter(id=server.id).update(host=server.allocation.host, task_state=None)


def test_a_decision_reads_what_its_request_asks_for(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    [plain] = hosts_for(spec_of(server), options_now())
    assert plain.facts.aggregate_metadata == {}
    flavor = server.flavor | {"extra_specs": {"aggregate_instance_extra_specs:ssd": "true"}}
    spec = spec_of(server, flavor=flavor)
    with CaptureQueriesContext(connection) as queries:
        hosts_for(spec, options_now())
    assert any("compute_aggregatehost" in query["sql"] for query in queries)
    cloud.run()


# ----- failed builds, and hosts left out ------------------------------------------------------------------------------


def failed_builds() -> dict[str, int]:
    return dict(Host.objects.values_list("name", "failed_builds"))


@pytest.mark.slow
def test_failed_builds_are_counted_until_one_goes_well(cloud: Cloud, alice: RequestContext) -> None:
    kelvin = cloud.add_host("kelvin")
    for expected, code, retryable in (
        (1, "host_error", False),
        (1, "image_unacceptable", False),  # no host could have done it
        (2, "host_failed", True),
    ):
        cloud.launch(context("alice"))
        drain()
        (command,) = kelvin.take()
        kelvin.report(command, "failed", error_code=code, message="It burns.", retryable=retryable)
        assert failed_builds() == {"kelvin": expected}
        if not retryable:
            cloud.run()
    cloud.run()  # the last one is tried again, on the only host
    assert failed_builds() == {"kelvin": 0}


@pytest.mark.slow
def test_operators_leave_hosts_out(cloud: Cloud, operator: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    server = cloud.launch(operator, scheduler_hints={"ignore_hosts": ["kelvin"]})
    alone = cloud.launch(context("operator", operator.roles), scheduler_hints={"ignore_hosts": "ohm"})
    none = cloud.launch(context("operator", operator.roles), scheduler_hints={"ignore_hosts": ["ohm", "kelvin"]})
    cloud.run()
    assert (cloud.fresh(server).host.name, cloud.fresh(alone).host.name) == ("ohm", "kelvin")  # type: ignore[union-attr]
    assert state_of(none) == ("error", None)


def test_others_leave_no_host_out(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    cloud.add_host("kelvin")
    with pytest.raises(ForbiddenError):
        cloud.launch(alice, scheduler_hints={"ignore_hosts": ["kelvin"]})
    wrongs: tuple[object, ...] = (["x" * 256], [1], [[]], {}, ["a"] * 1001, [""], ["\0"])
    for wrong in wrongs:
        with pytest.raises(InvalidInputError) as caught:
            cloud.launch(operator, scheduler_hints={"ignore_hosts": wrong})
        assert caught.value.field == "ignore_hosts"


def test_aggregates_of_many_hosts_are_written_in_few_statements(cloud: Cloud, operator: RequestContext) -> None:
    hosts = Host.objects.bulk_create([Host(name=f"h{number}") for number in range(40)])
    made = Aggregate.objects.create(name="many")
    AggregateHost.objects.bulk_create([AggregateHost(aggregate=made, host=host) for host in hosts])
    with CaptureQueriesContext(connection) as queries:
        aggregates.set_aggregate_metadata(operator, made.pk, {"cpu_allocation_ratio": "3"})
    assert len(queries) < 15
    assert set(Host.objects.values_list("aggregate_cpu_ratio", flat=True)) == {3}
    with CaptureQueriesContext(connection) as queries:
        aggregates.set_aggregate_metadata(operator, made.pk, {"cpu_allocation_ratio": "3.0"})
    assert not [query for query in queries if query["sql"].startswith('UPDATE "hosts_host"')]
    Host.objects.all().delete()
