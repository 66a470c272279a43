"""Each driver's first choice, and that none gives a guest to a host that must not have it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from provisioning.scheduler import GroupSpec, HostState, Options, RequestSpec, decide, explain, options_of
from tests.scheduler.test_ranking import SPEC, chance, host

DRIVERS = ["filter", "chance", "availability-zone", "simple"]


def driven(name: str, zone: str = "nova", **settings: object) -> Options:
    made = {f"SCHEDULER_{key}": value for key, value in settings.items()}
    return options_of(SimpleNamespace(SCHEDULER_DRIVER=name, SCHEDULER_DEFAULT_ZONE=zone, **made))


def names(hosts: list[HostState], spec: RequestSpec, options: Options) -> list[str]:
    return [item.host.name for item in decide(hosts, spec, options, choose=chance(1)).ranked]


@pytest.mark.parametrize("driver", DRIVERS)
def test_no_driver_breaks_a_promise(driver: str) -> None:
    good = host("good")
    wrong = [
        host("dead", alive=False),
        host("disabled", enabled=False),
        host("elsewhere", availability_zone="moon"),
        host("no-memory", memory_mb_allocated=8000),
        host("no-disk", disk_gb_allocated=95),
        host("no-vcpus", vcpus_allocated=31),
        host("left-out"),
        host("failed"),
        host("crowded"),
        host("apart"),
        host("full", instances=9, max_instances=9),
    ]
    spec = replace(
        SPEC,
        availability_zone="nova",
        ignored_hosts=frozenset({"left-out"}),
        excluded_hosts=frozenset({host("failed").id}),
        group=GroupSpec("anti-affinity", {host("crowded").id: 1}),
        different_hosts=frozenset({host("apart").id}),
    )
    assert names([*wrong, good], spec, driven(driver)) == ["good"]
    assert names(wrong, spec, driven(driver)) == []
    assert names([good, host("ohm")], replace(spec, requested_host="ohm"), driven(driver)) == ["ohm"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_driver_says_how_it_came_to_that(driver: str) -> None:
    decision = decide([host("kelvin"), host("ohm", memory_mb_limit=10)], SPEC, driven(driver))
    assert decision.driver == driver
    assert (decision.hosts, decision.suitable) == (2, 1)
    assert dict(decision.losses) == {"RamFilter": ("ohm",)}
    assert "0 have enough memory" in explain(decide([host("ohm", memory_mb_limit=10)], SPEC, driven(driver)))


def test_chance_takes_any() -> None:
    hosts = [host(f"h{number}", memory_mb_allocated=1024 * number) for number in range(3)]
    options = driven("chance")
    firsts = Counter(decide(hosts, SPEC, options, choose=chance(seed)).ranked[0].host.name for seed in range(300))
    assert set(firsts) == {"h0", "h1", "h2"}
    assert min(firsts.values()) > 60


def test_a_zone_is_obeyed_and_else_the_default_one_taken() -> None:
    hosts = [host("here"), host("there", availability_zone="moon")]
    options = driven("availability-zone", zone="moon")
    assert names(hosts, SPEC, options) == ["there"]
    assert names(hosts, replace(SPEC, availability_zone="nova"), options) == ["here"]


def test_without_a_default_zone_one_must_be_specified() -> None:
    options = driven("availability-zone", zone="")
    decision = decide([host()], SPEC, options)
    assert explain(decision) == (
        "1 host → 0 are in the zone: this cloud requires an availability zone, and the request names none."
    )
    assert names([host()], replace(SPEC, availability_zone="nova"), options) == ["kelvin"]


def test_simple_takes_the_least_loaded_first() -> None:
    hosts = [
        host("busy", vcpus_allocated=4, instances=1),
        host("two", vcpus_allocated=2, instances=2, memory_mb_allocated=0),
        host("one", vcpus_allocated=2, instances=1, memory_mb_allocated=4096),
    ]
    assert names(hosts, SPEC, driven("simple")) == ["one", "two", "busy"]
    best = decide(hosts, SPEC, driven("simple")).ranked[0]
    assert (best.weight, dict(best.parts)) == (-2, {"vcpus": -2, "instances": -1})


@pytest.mark.parametrize("driver", DRIVERS)
def test_only_the_best_are_ranked_of_many(driver: str) -> None:
    hosts = [host(f"h{number}", memory_mb_allocated=number) for number in range(200)]
    decision = decide(hosts, SPEC, driven(driver))
    assert (len(decision.ranked), decision.suitable) == (50, 200)
    assert len({item.host.name for item in decision.ranked}) == 50


def test_the_best_of_many_are_the_best() -> None:
    hosts = [host(f"h{number}", memory_mb_allocated=number // 2) for number in range(200)]
    ranked = decide(hosts, SPEC, replace(driven("filter"), best=5)).ranked
    assert {item.host.name for item in ranked[:4]} == {"h0", "h1", "h2", "h3"}
    assert ranked[4].host.name in {"h4", "h5"}
    assert [item.weight for item in ranked] == sorted((item.weight for item in ranked), reverse=True)


def test_equals_at_the_edge_are_shared_out_by_chance() -> None:
    hosts = [host(f"h{number}") for number in range(20)]
    options = replace(driven("filter"), best=2)
    seen = Counter(
        item.host.name for seed in range(400) for item in decide(hosts, SPEC, options, choose=chance(seed)).ranked
    )
    assert len(seen) == 20
    assert min(seen.values()) > 15
