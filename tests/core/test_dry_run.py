"""Would it fit: it never writes, sees what the caller sees, and never disagrees with the launches that follow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NovellaError, OverQuotaError
from provisioning.compute.launch.dry_run import MOST_SHOWN, WouldFit, would_fit
from provisioning.compute.launch.flavor_choices import flavor_choices
from provisioning.compute.models import Instance
from provisioning.compute.selectors.catalog import limits_for
from provisioning.compute.services import aggregates
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from provisioning.compute.services.server_groups import create_server_group
from provisioning.hosts.models import CachedImage, Host
from provisioning.quotas.services.limits import set_limit
from tests.support.clouds import READER, Cloud, context, state_of
from tests.support.landing import one_in

pytestmark = pytest.mark.both_databases


def ask(caller: RequestContext, cloud: Cloud, **changes: Any) -> Any:
    values: dict[str, Any] = {"flavor_ref": "1", "image_id": str(cloud.image.id), "count": 20, **changes}
    return would_fit(caller, WouldFit(**values))


def launched(cloud: Cloud, most: int = 20, **changes: Any) -> list[Instance]:
    """Launch one after the other until one fails; returns those that did not."""
    made = []
    for _ in range(most):
        server = cloud.launch(context("alice"), **changes)
        cloud.run()
        if state_of(server)[0] == "error":
            break
        made.append(server)
    return made


@pytest.fixture
def unlimited(alice: RequestContext) -> None:
    assert alice.project_id is not None
    for resource in ("instances", "cores", "ram"):
        set_limit(alice.project_id, resource, -1)


# ----- as launches find -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "hosts",
    [
        [{"memory_mb": 3000}],
        [{"memory_mb": 3000}, {"vcpus": 2}, {"disk_gb": 3}],
        [{"memory_mb": 512}, {"vcpus": 1}, {"memory_mb": 5 * 1024}],
        [],
    ],
)
def test_as_many_as_it_says_find_a_place(
    cloud: Cloud, alice: RequestContext, unlimited: None, hosts: list[dict[str, int]]
) -> None:
    for number, capacity in enumerate(hosts):
        cloud.add_host(f"h{number}", **capacity)
    foretold = ask(alice, cloud)
    made = launched(cloud)
    assert foretold.fits == len(made) < foretold.most
    assert ask(alice, cloud).fits == 0


@pytest.mark.slow
@one_in(2, "driver", ["filter", "chance", "simple", "availability-zone"])
def test_with_every_driver(
    cloud: Cloud, alice: RequestContext, unlimited: None, settings: Settings, driver: str
) -> None:
    settings.SCHEDULER_DRIVER, settings.SCHEDULER_DEFAULT_ZONE = driver, "nova"
    cloud.add_host("kelvin", memory_mb=2048)
    cloud.add_host("ohm", vcpus=3)
    assert ask(alice, cloud).fits == len(launched(cloud)) == 5


@pytest.mark.slow
def test_with_limits_of_aggregates(
    cloud: Cloud, alice: RequestContext, operator: RequestContext, unlimited: None
) -> None:
    for name in ("kelvin", "ohm", "tesla"):
        cloud.add_host(name, memory_mb=2048)
    made = aggregates.create_aggregate(operator, "few")
    aggregates.set_aggregate_metadata(operator, made.pk, {"max_instances_per_host": "1"})
    aggregates.add_host(operator, made.pk, "kelvin")
    dense = aggregates.create_aggregate(operator, "dense")
    aggregates.set_aggregate_metadata(operator, dense.pk, {"ram_allocation_ratio": "1.75"})
    aggregates.add_host(operator, dense.pk, "ohm")
    assert ask(alice, cloud).fits == len(launched(cloud)) == 1 + 3 + 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "fits"),
    [("anti-affinity", 2), ("affinity", 4), pytest.param("soft-anti-affinity", 8, marks=pytest.mark.deep)],
)
def test_with_groups(cloud: Cloud, alice: RequestContext, unlimited: None, policy: str, fits: int) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name, memory_mb=4 * 1024)
    group = create_server_group(alice, "group", policy)
    foretold = ask(alice, cloud, group=str(group.id), count=10)
    assert foretold.fits == fits
    assert ask(alice, cloud, hints={"group": str(group.id)}, count=10).fits == fits
    assert len(launched(cloud, scheduler_hints={"group": str(group.id)})) == fits


def test_the_decision_is_of_the_first_that_finds_none(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=2500)
    cloud.add_host("ohm", memory_mb=512)
    result = ask(alice, cloud, count=5)
    assert (result.fits, result.asked, result.decision.suitable) == (2, 5, 0)
    assert result.sentence == (
        "2 of 5 would fit now. 2 hosts → 0 have enough memory: 1 GiB requested, at most 512 MiB free."
    )
    alone = ask(alice, cloud, count=1)
    assert (alone.fits, alone.asked) == (2, 1)
    assert alone.sentence == "2 of these would fit now."


def test_counting_stops(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    cloud.add_host("kelvin", vcpus=300, memory_mb=1 << 20, disk_gb=5000)
    result = ask(alice, cloud, count=1)
    assert (result.fits, result.most) == (MOST_SHOWN, MOST_SHOWN)
    assert result.sentence == "At least 10 of these would fit now."
    assert result.decision.suitable == 1
    assert ask(operator, cloud, count=1).fits == 100
    assert ask(alice, cloud, count=30).most == MOST_SHOWN, "what the quota does not let through is not counted"


def test_counting_goes_as_far_as_was_asked(cloud: Cloud, alice: RequestContext, unlimited: None) -> None:
    cloud.add_host("kelvin", vcpus=300, memory_mb=1 << 20, disk_gb=5000)
    assert ask(alice, cloud, count=30).most == 30


# ----- words and eyes -------------------------------------------------------------------------------------------------


def test_hosts_are_named_to_operators_only(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=1024)
    cloud.add_host("ohm", memory_mb=2048)
    seen = ask(operator, cloud)
    assert seen.hosts == [("kelvin", 1), ("ohm", 2)]
    hidden = ask(alice, cloud)
    assert hidden.hosts == []
    assert "kelvin" not in hidden.sentence + seen.sentence


def test_a_smaller_size_is_named_when_none_fits(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=3500)
    result = ask(alice, cloud, flavor_ref="2", count=1)
    assert result.fits == 0
    assert result.sentence.startswith("None of these would fit now. 1 host → 0 have enough memory")
    assert result.sentence.endswith("m1.small would fit 3 times.")


def test_the_quota_is_reported(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=1 << 20, vcpus=100, disk_gb=1000)
    assert alice.project_id is not None
    set_limit(alice.project_id, "cores", 3)
    result = ask(alice, cloud, count=5)
    assert (result.allowed, result.fits) == (3, 10)
    assert result.sentence.endswith("The quota allows 3.")
    assert "quota" not in ask(alice, cloud, count=2).sentence
    set_limit(alice.project_id, "cores", -1)
    set_limit(alice.project_id, "instances", -1)
    set_limit(alice.project_id, "ram", -1)
    assert ask(alice, cloud, count=2).allowed is None


def test_a_reader_may_ask(cloud: Cloud) -> None:
    cloud.add_host("kelvin")
    assert ask(context("alice", READER), cloud).fits == 8


# ----- nothing is written ---------------------------------------------------------------------------------------------


def test_it_never_writes(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    cloud.add_host("kelvin")
    CachedImage.objects.create(host=Host.objects.get(), image_id=cloud.image.id)
    group = create_server_group(alice, "group", "anti-affinity")
    requests: list[tuple[RequestContext, dict[str, Any]]] = [
        (alice, {}),
        (alice, {"flavor_ref": "2", "count": 30}),
        (alice, {"group": str(group.id), "count": 3}),
        (operator, {"requested_host": "kelvin"}),
        (operator, {"flavor_ref": None, "vcpus": 1, "memory_mb": 1, "disk_gb": 1, "image_id": None}),
        (operator, {"hints": {"ignore_hosts": ["kelvin"]}}),
    ]
    with CaptureQueriesContext(connection) as queries:
        for caller, changes in requests:
            ask(caller, cloud, **changes)
        flavor_choices(alice, cloud.image, limits_for(alice))
    statements = [query["sql"].lstrip().split()[0] for query in queries]
    assert Counter(statements).keys() == {"SELECT"}
    assert not Instance.objects.exists()


def test_the_hosts_are_read_once_whatever_the_sizes(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    cloud.add_host("kelvin")

    def reads() -> int:
        with CaptureQueriesContext(connection) as queries:
            flavor_choices(alice, cloud.image, limits_for(alice))
        return sum('FROM "hosts_host"' in query["sql"] for query in queries)

    assert reads() == 1
    for number in range(3, 9):
        create_flavor(operator, FlavorRequest(f"m{number}", 1, 512 * number, 2, flavorid=str(number)))
    assert reads() == 1


def test_choices_count_as_the_dry_run_does(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=5000)
    cloud.add_host("ohm", memory_mb=1024)
    choices = {choice.flavor.flavorid: choice.room for choice in flavor_choices(alice, cloud.image, limits_for(alice))}
    assert choices == {ref: ask(alice, cloud, flavor_ref=ref, count=1).fits for ref in ("1", "2")} == {"1": 5, "2": 1}


# ----- the same refusals as of a launch -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "launch"),
    [
        ({"flavor_ref": "99"}, {"flavor_ref": "99"}),
        ({"flavor_ref": "secret"}, {"flavor_ref": "secret"}),
        ({"image_id": "nothing"}, {"image_id": "nothing"}),
        ({"flavor_ref": "narrow"}, {"flavor_ref": "narrow"}),
        ({"availability_zone": "moon"}, {"availability_zone": "moon"}),
        ({"availability_zone": "nova:kelvin"}, {"availability_zone": "nova:kelvin"}),
        ({"requested_host": "kelvin"}, {"host": "kelvin"}),
        ({"hints": {"same_host": ["x"]}}, {"scheduler_hints": {"same_host": ["x"]}}),
        ({"hints": {"query": "["}}, {"scheduler_hints": {"query": "["}}),
        ({"hints": {"ignore_hosts": ["kelvin"]}}, {"scheduler_hints": {"ignore_hosts": ["kelvin"]}}),
        (
            {"group": "00000000-0000-4000-8000-000000000000"},
            {"scheduler_hints": {"group": "00000000-0000-4000-8000-000000000000"}},
        ),
    ],
)
def test_refused_as_a_launch_is(
    cloud: Cloud, alice: RequestContext, operator: RequestContext, asked: dict[str, Any], launch: dict[str, Any]
) -> None:
    cloud.add_host("kelvin")
    create_flavor(operator, FlavorRequest("secret", 1, 512, 2, flavorid="secret", is_public=False))
    create_flavor(operator, FlavorRequest("narrow", 1, 32, 2, flavorid="narrow"))
    with pytest.raises(NovellaError) as dry:
        ask(alice, cloud, **asked)
    with pytest.raises(NovellaError) as wet:
        cloud.launch(alice, **launch)
    assert type(dry.value) is type(wet.value)
    assert (dry.value.message, dry.value.field) == (wet.value.message, wet.value.field)


def test_another_project_s_group_is_none(cloud: Cloud, alice: RequestContext, charlie: RequestContext) -> None:
    group = create_server_group(charlie, "theirs", "affinity")
    with pytest.raises(InvalidInputError, match="could not be found"):
        ask(alice, cloud, group=str(group.id))


def test_a_full_group_takes_none(cloud: Cloud, alice: RequestContext) -> None:
    group = create_server_group(alice, "full", "affinity")
    with pytest.raises(OverQuotaError):
        ask(alice, cloud, group=str(group.id), count=11)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"count": 0}, "count"),
        ({"count": 101}, "count"),
        ({"vcpus": 1}, "vcpus"),
        ({"flavor_ref": None, "vcpus": -1}, "vcpus"),
        ({"flavor_ref": None, "memory_mb": 1 << 40}, "memory_mb"),
    ],
)
def test_what_is_wrong_is_named(cloud: Cloud, operator: RequestContext, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ask(operator, cloud, **changes)
    assert caught.value.field == field


def test_amounts_are_for_operators(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    cloud.add_host("kelvin")
    with pytest.raises(ForbiddenError):
        ask(alice, cloud, flavor_ref=None, vcpus=1, memory_mb=1, disk_gb=1)
    assert ask(operator, cloud, flavor_ref=None, vcpus=3, memory_mb=1024, disk_gb=1).fits == 2


def test_a_caller_without_a_project_is_refused(cloud: Cloud, operator: RequestContext) -> None:
    with pytest.raises(ForbiddenError):
        ask(replace(operator, project_id=None), cloud)
