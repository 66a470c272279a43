"""The scheduler as a pure function: what passes, in which order, and what is said when nothing does."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.scheduler import Facts, HostState, RequestSpec, explain
from provisioning.scheduler.options import FILTERS
from provisioning.scheduler.spec import NO_FACTS
from tests.support.ranking import rank

SPEC = RequestSpec(vcpus=2, memory_mb=2048, disk_gb=10)


def host(name: str = "kelvin", **changes: Any) -> HostState:
    state = HostState(
        raw_id=uuid.uuid5(uuid.NAMESPACE_DNS, name),
        name=name,
        availability_zone="nova",
        enabled=True,
        alive=True,
        vcpus_total=8,
        vcpus_limit=32,
        memory_mb_limit=8192,
        disk_gb_limit=100,
        vcpus_allocated=0,
        memory_mb_allocated=0,
        disk_gb_allocated=0,
    )
    metadata = changes.pop("aggregate_metadata", None)
    facts = Facts(aggregate_metadata={state.raw_id: metadata}) if metadata is not None else NO_FACTS
    return state._replace(facts=facts, **changes)


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - spreads load, keeps no secret


def reasons(hosts: list[HostState], spec: RequestSpec = SPEC) -> tuple[str, str]:
    """Name and reason of the filter that left none."""
    decision = rank(hosts, spec)
    assert not decision.ranked
    return decision.filters[-1].name, decision.filters[-1].reason


def test_a_host_with_exactly_enough_passes() -> None:
    exact = host(vcpus_limit=2, vcpus_total=2, memory_mb_limit=2048, disk_gb_limit=10)
    assert [item.host for item in rank([exact], SPEC).ranked] == [exact]


@pytest.mark.parametrize(
    ("changes", "name", "reason"),
    [
        ({"alive": False}, "ComputeFilter", "1 of 1 host does not answer"),
        ({"enabled": False}, "ComputeFilter", "1 of 1 host is disabled"),
        ({"vcpus_allocated": 31}, "CoreFilter", "no host has 2 vCPUs free; the most is 1"),
        ({"vcpus_total": 1}, "CoreFilter", "no host has 2 vCPUs free; the most is 1"),
        ({"memory_mb_allocated": 7168}, "RamFilter", "no host has 2048 MiB of memory free; the most is 1024 MiB"),
        ({"memory_mb_limit": 2047}, "RamFilter", "no host has 2048 MiB of memory free; the most is 2047 MiB"),
        ({"memory_mb_allocated": 9999}, "RamFilter", "no host has 2048 MiB of memory free; the most is 0 MiB"),
        ({"disk_gb_allocated": 91}, "DiskFilter", "no host has 10 GiB of disk free; the most is 9 GiB"),
    ],
)
def test_each_filter_says_what_is_missing(changes: dict[str, Any], name: str, reason: str) -> None:
    assert reasons([host(**changes)]) == (name, reason)


def test_the_zone_is_named() -> None:
    spec = replace(SPEC, availability_zone="moon")
    assert reasons([host(), host("ohm")], spec) == (
        "AvailabilityZoneFilter",
        "2 hosts are outside availability zone moon",
    )
    assert rank([host(availability_zone="moon")], spec).ranked


def test_a_host_that_failed_is_not_tried_again() -> None:
    spec = replace(SPEC, excluded_hosts=frozenset({host().id}))
    assert reasons([host()], spec) == ("RetryFilter", "1 host failed to build this server")
    assert [item.host.name for item in rank([host(), host("ohm")], spec).ranked] == ["ohm"]


def test_the_funnel_counts_hosts_before_and_after_each_filter() -> None:
    hosts = [host("kelvin", alive=False), host("ohm", memory_mb_limit=1024), host("tesla", memory_mb_limit=512)]
    decision = rank(hosts, SPEC)
    assert [(item.name, item.before, item.after) for item in decision.filters] == [
        ("ComputeFilter", 3, 2),
        ("AvailabilityZoneFilter", 2, 2),
        ("RetryFilter", 2, 2),
        ("NumInstancesFilter", 2, 2),
        ("IoOpsFilter", 2, 2),
        ("CoreFilter", 2, 2),
        ("RamFilter", 2, 0),
    ]
    assert explain(decision) == "3 hosts → 2 are up → 0 have enough memory: 2 GiB requested, at most 1 GiB free."


def test_there_are_no_hosts() -> None:
    assert explain(rank([], SPEC)) == "There are no hosts in this cloud yet."


def test_a_decision_with_a_host_needs_no_explanation() -> None:
    assert explain(rank([host()], SPEC)) == ""


def test_the_host_with_the_most_memory_free_comes_first() -> None:
    hosts = [host("ohm", memory_mb_allocated=4096), host("kelvin"), host("tesla", memory_mb_allocated=1024)]
    ranked = rank(hosts, SPEC).ranked
    assert [item.host.name for item in ranked] == ["kelvin", "tesla", "ohm"]
    assert [round(item.weight, 2) for item in ranked] == [1.0, 0.75, 0.0]


def test_equals_are_shared_out_by_chance() -> None:
    hosts = [host(name) for name in ("kelvin", "ohm", "tesla")]
    firsts = Counter(rank(hosts, SPEC, choose=chance(seed)).ranked[0].host.name for seed in range(300))
    assert set(firsts) == {"kelvin", "ohm", "tesla"}
    assert min(firsts.values()) > 50


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_the_subset_decides_how_far_down_the_first_choice_goes(size: int) -> None:
    hosts = [host(f"h{number}", memory_mb_allocated=number * 1024) for number in range(4)]
    firsts = {rank(hosts, SPEC, subset_size=size, choose=chance(seed)).ranked[0].host.name for seed in range(200)}
    assert firsts == {f"h{number}" for number in range(min(size, 4))}


def test_the_subset_loses_no_host() -> None:
    hosts = [host(f"h{number}", memory_mb_allocated=number * 1024) for number in range(4)]
    ranked = rank(hosts, SPEC, subset_size=3, choose=chance(5)).ranked
    assert sorted(item.host.name for item in ranked) == ["h0", "h1", "h2", "h3"]


states = st.builds(
    host,
    name=st.uuids().map(str),
    alive=st.booleans(),
    enabled=st.booleans(),
    vcpus_allocated=st.integers(0, 40),
    memory_mb_allocated=st.integers(0, 9000),
    disk_gb_allocated=st.integers(0, 110),
    availability_zone=st.sampled_from(["nova", "moon"]),
)


@pytest.mark.slow
@given(st.lists(states, max_size=12), st.sampled_from(["", "nova", "moon"]), st.integers(1, 5))
def test_ranked_are_exactly_the_hosts_that_pass_every_filter(hosts: list[HostState], zone: str, subset: int) -> None:
    spec = replace(SPEC, availability_zone=zone)
    decision = rank(hosts, spec, subset_size=subset)
    expected = {item.id for item in hosts if all(judge.passes(item, spec) for judge in FILTERS)}
    assert {item.host.id for item in decision.ranked} == expected
    assert bool(explain(decision)) is not bool(expected)
    for before, after in zip(decision.filters, decision.filters[1:], strict=False):
        assert before.after == after.before
    for result in decision.filters:
        assert bool(result.reason) is (result.after < result.before)
        assert not any(item.name in result.reason for item in hosts)
