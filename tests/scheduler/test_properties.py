"""What holds of every decision, whatever the hosts and the request."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioning.scheduler import Facts, GroupSpec, HostState, Options, RequestSpec, decide, explain, options_of
from provisioning.scheduler.counting import how_many
from provisioning.scheduler.options import FILTERS
from tests.scheduler.test_ranking import chance, host

pytestmark = pytest.mark.slow

NAMES = [f"host{number}" for number in range(6)]
IDS = {name: host(name).id for name in NAMES}
OWN = "tests.scheduler.own_parts"


def cloud_of(seed: int) -> list[HostState]:
    """Up to six hosts of all sorts; hypothesis draws the seed only, since drawing every number takes seconds."""
    draw = random.Random(seed)  # noqa: S311 - test data
    raw = [each.hex for each in IDS.values()]
    facts = Facts(
        io_ops={each: draw.randint(0, 3) for each in raw if draw.random() < 0.5},
        with_image=frozenset(each for each in raw if draw.random() < 0.5),
        aggregate_metadata={each: {"ssd": frozenset({"true"})} for each in raw if draw.random() < 0.5},
        cpu_info={each: {"arch": "x86_64"} for each in raw if draw.random() < 0.5},
    )
    return [
        host(
            name,
            raw_id=IDS[name].hex,
            availability_zone=draw.choice(["nova", "nova", "moon"]),
            alive=draw.random() < 0.9,
            enabled=draw.random() < 0.9,
            vcpus_total=draw.randint(1, 8),
            vcpus_limit=draw.randint(2, 16),
            vcpus_allocated=draw.randint(0, 6),
            memory_mb_limit=draw.randint(500, 6000),
            memory_mb_allocated=draw.randint(0, 2000),
            disk_gb_limit=draw.randint(10, 90),
            disk_gb_allocated=draw.randint(0, 30),
            instances=draw.randint(0, 4),
            architecture=draw.choice(["", "x86_64", "aarch64"]),
            hypervisor_type=draw.choice(["", "KVM", "QEMU"]),
            hypervisor_version=draw.choice([0, 6_000_000, 8_002_000]),
            failed_builds=draw.randint(0, 2),
            max_instances=draw.choice([None, None, 3, 6]),
            max_io_ops=draw.choice([None, None, 2, 4]),
        )._replace(facts=facts)
        for name in draw.sample(NAMES, draw.randint(0, len(NAMES)))
    ]


clouds = st.integers(0, 1 << 32).map(cloud_of)
some_ids = st.frozensets(st.sampled_from(list(IDS.values())), max_size=3)
groups = st.builds(
    GroupSpec,
    st.sampled_from(["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]),
    st.dictionaries(st.sampled_from(list(IDS.values())), st.integers(1, 2), max_size=3),
    st.integers(1, 3),
)
WISHES: dict[str, st.SearchStrategy[Any]] = {
    "availability_zone": st.sampled_from(["nova", "moon"]),
    "excluded_hosts": some_ids,
    "requested_host": st.sampled_from(NAMES),
    "same_hosts": some_ids,
    "different_hosts": some_ids,
    "group": groups,
    "architecture": st.just("amd64"),
    "aggregate_specs": st.just({"ssd": "true"}),
    "ignored_hosts": st.frozensets(st.sampled_from(NAMES), max_size=2),
    "hypervisor_type": st.just("kvm"),
    "hypervisor_versions": st.just(">=7.0"),
    "capabilities": st.sampled_from([{"free_disk_gb": ">= 10"}, {"num_io_ops": "<= 2"}]),
    "query": st.sampled_from([[">=", "$free_ram_mb", 1024], ["not", ["=", "$num_instances", 3]]]),
    "image_id": st.just(uuid.UUID(int=7)),
}


@st.composite
def specs(draw: st.DrawFn) -> RequestSpec:
    """A small guest with at most three wishes: with more of them few hosts would ever be left."""
    wishes = draw(st.lists(st.sampled_from(sorted(WISHES)), unique=True, max_size=3))
    values = {name: draw(WISHES[name]) for name in wishes}
    vcpus, memory_mb, disk_gb = draw(st.tuples(st.integers(0, 2), st.integers(0, 700), st.integers(0, 12)))
    return RequestSpec(vcpus, memory_mb, disk_gb, **values)


def options_from(seed: int, *own: str) -> Options:
    """Options with any of our drivers, limits and multipliers, and an operator's filters."""
    draw = random.Random(seed)  # noqa: S311 - test data
    options = {
        "DRIVER": draw.choice(["filter", "filter", "chance", "simple", "availability-zone"]),
        "DEFAULT_ZONE": draw.choice(["", "nova", "nova"]),
        "FILTERS": ["default", *own],
        "PLACEMENT": draw.choice(["spread", "pack"]),
        "RAM_WEIGHT": draw.choice([None, None, -2.0, 0.0, 0.5, 3.0]),
        "SUBSET_SIZE": draw.randint(1, 3),
        "MAX_INSTANCES_PER_HOST": draw.choice([0, 0, 3, 5]),
        "MAX_IO_OPS_PER_HOST": draw.choice([0, 0, 2, 3]),
    }
    return options_of(SimpleNamespace(**{f"SCHEDULER_{name}": value for name, value in options.items()}))


def chosen(*own: str) -> st.SearchStrategy[Options]:
    return st.integers(0, 1 << 32).map(lambda seed: options_from(seed, *own))


@given(clouds, specs(), chosen())
def test_the_ranked_are_exactly_the_hosts_that_every_filter_lets_pass(
    hosts: list[HostState], spec: RequestSpec, options: Options
) -> None:
    decision = decide(hosts, spec, options)
    requested = options.driver.request(spec, options)
    filters = options.driver.filters(options)
    expected = {
        each.name
        for each in hosts
        if all(judge.passes(each, requested) for judge in filters if judge.applies(requested))
    }
    assert {item.host.name for item in decision.ranked} == expected
    assert decision.suitable == len(expected)
    assert bool(explain(decision)) is not bool(expected)


@given(clouds, specs(), chosen())
def test_counts_only_fall_and_each_fall_has_a_reason_that_names_no_host(
    hosts: list[HostState], spec: RequestSpec, options: Options
) -> None:
    decision = decide(hosts, spec, options)
    counts = [len(hosts), *(result.after for result in decision.filters)]
    assert [result.before for result in decision.filters] == counts[:-1]
    assert counts == sorted(counts, reverse=True)
    for result in decision.filters:
        assert bool(result.reason) is (result.after < result.before) is (result.name in decision.losses)
        assert len(decision.losses.get(result.name, ())) == result.before - result.after
    words = explain(decision) + "".join(result.reason + result.words for result in decision.filters)
    assert not any(name in words for name in NAMES)
    lost = [name for names in decision.losses.values() for name in names]
    assert sorted([*lost, *(item.host.name for item in decision.ranked)]) == sorted(each.name for each in hosts)


@pytest.mark.parametrize("judge", FILTERS, ids=lambda judge: judge.name)
@settings(max_examples=25)
@given(data=st.data())
def test_judging_all_hosts_is_judging_each(judge: object, data: st.DataObject) -> None:
    hosts, spec = data.draw(clouds), data.draw(specs())
    [mine] = [each for each in FILTERS if each is judge]
    assert mine.select(hosts, spec) == [each for each in hosts if mine.passes(each, spec)]
    if not mine.applies(spec):
        assert mine.select(hosts, spec) == hosts


@given(clouds, specs(), chosen())
def test_the_order_is_that_of_the_weights_which_are_the_sums_of_their_parts(
    hosts: list[HostState], spec: RequestSpec, options: Options
) -> None:
    decision = decide(hosts, spec, replace(options, subset_size=1))
    weights = [item.weight for item in decision.ranked]
    assert weights == sorted(weights, reverse=True)
    if decision.driver != "filter":
        return
    multipliers = {weigher.name: weigher.multiplier for weigher in options.weighers}
    for item in decision.ranked:
        assert item.weight == pytest.approx(sum(item.parts.values()))
        for name, part in item.parts.items():
            assert min(0, multipliers[name]) - 1e-9 <= part <= max(0, multipliers[name]) + 1e-9


@given(clouds, specs())
def test_pack_is_spread_turned_round(hosts: list[HostState], spec: RequestSpec) -> None:
    made = {
        placement: options_of(SimpleNamespace(SCHEDULER_PLACEMENT=placement, SCHEDULER_WEIGHERS=["RAMWeigher"]))
        for placement in ("spread", "pack")
    }
    free = {
        placement: [
            item.host.memory_mb_limit - item.host.memory_mb_allocated for item in decide(hosts, spec, own).ranked
        ]
        for placement, own in made.items()
    }
    assert free["spread"] == sorted(free["pack"], reverse=True)
    assert free["pack"] == sorted(free["spread"])


def by_hand(hosts: list[HostState], spec: RequestSpec, options: Options, most: int) -> int:
    """Place one after the other, asking the scheduler of all hosts each time."""
    left = list(hosts)
    for count in range(most):
        ranked = decide(left, spec, options, choose=chance(count)).ranked
        if not ranked:
            return count
        taken = ranked[0].host
        left[left.index(taken)] = taken._replace(
            vcpus_allocated=taken.vcpus_allocated + spec.vcpus,
            memory_mb_allocated=taken.memory_mb_allocated + spec.memory_mb,
            disk_gb_allocated=taken.disk_gb_allocated + spec.disk_gb,
            instances=taken.instances + 1,
            facts=replace(taken.facts, io_ops={**taken.facts.io_ops, taken.raw_id: taken.io_ops + 1}),
        )
        if spec.group is not None:
            members = Counter(dict(spec.group.members)) + Counter([taken.id])
            spec = replace(spec, group=replace(spec.group, members=members))
    return most


@settings(max_examples=200)
@given(clouds, specs(), chosen(), st.integers(1, 20))
def test_what_is_counted_is_what_is_decided(
    hosts: list[HostState], spec: RequestSpec, options: Options, most: int
) -> None:
    count = how_many(hosts, spec, options, most, choose=chance(1))
    assert sum(count.where.values()) == count.fits <= most
    assert bool(count.decision.ranked) is (count.fits == most)
    if spec.group is None or spec.group.policy != "affinity" or spec.group.members:
        assert count.fits == by_hand(hosts, spec, options, most)
    else:
        assert count.fits == 0 or len(count.where) == 1  # which host it is, chance may decide


@given(clouds, specs(), chosen(f"{OWN}.EmptierHalf"), st.integers(1, 6))
def test_filters_that_compare_hosts_are_asked_for_each_guest(
    hosts: list[HostState], spec: RequestSpec, options: Options, most: int
) -> None:
    spec = replace(spec, group=None)
    assert how_many(hosts, spec, options, most).fits == by_hand(hosts, spec, options, most)
