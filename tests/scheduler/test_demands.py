"""Groups, hints, a requested host, processors and aggregates: which hosts pass, and what is said when none does."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from provisioning.scheduler import (
    DEFAULTS,
    Facts,
    GroupSpec,
    HostNeed,
    HostState,
    RequestSpec,
    explain,
    facts_needed,
    group_allows,
)
from provisioning.scheduler.operators import meets
from tests.scheduler.test_ranking import SPEC, host, reasons
from tests.support.ranking import rank

KELVIN, OHM, TESLA = (host(name) for name in ("kelvin", "ohm", "tesla"))
ALL = [KELVIN, OHM, TESLA]


def names(spec: RequestSpec, hosts: list[HostState] = ALL) -> set[str]:
    return {item.host.name for item in rank(hosts, spec).ranked}


def group(policy: str, members: Mapping[str, int], most: int = 1) -> RequestSpec:
    """A request of a group that has so many members on the hosts of these names."""
    return replace(SPEC, group=GroupSpec(policy, {host(name).id: many for name, many in members.items()}, most))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (group("affinity", {}), {"kelvin", "ohm", "tesla"}),
        (group("affinity", {"ohm": 1}), {"ohm"}),
        (group("anti-affinity", {}), {"kelvin", "ohm", "tesla"}),
        (group("anti-affinity", {"ohm": 1}), {"kelvin", "tesla"}),
        (group("anti-affinity", {"ohm": 1, "tesla": 2}, most=2), {"kelvin", "ohm"}),
        (group("soft-affinity", {"ohm": 1}), {"kelvin", "ohm", "tesla"}),
        (group("soft-anti-affinity", dict.fromkeys(["kelvin", "ohm", "tesla"], 1)), {"kelvin", "ohm", "tesla"}),
        (replace(SPEC, same_hosts=frozenset({OHM.id})), {"ohm"}),
        (replace(SPEC, same_hosts=frozenset()), set()),
        (replace(SPEC, different_hosts=frozenset({OHM.id})), {"kelvin", "tesla"}),
        (replace(SPEC, requested_host="ohm"), {"ohm"}),
        (replace(SPEC, requested_host="nowhere"), set()),
    ],
)
def test_which_hosts_pass(spec: RequestSpec, expected: set[str]) -> None:
    assert names(spec) == expected


def test_hosts_offer_what_a_guest_needs() -> None:
    traits = {KELVIN.raw_id: frozenset({"UEFI", "CUSTOM_GOLD"}), OHM.raw_id: frozenset({"UEFI", "TPM"})}
    hosts = [each._replace(facts=Facts(traits=traits)) for each in ALL]
    uefi, tpm = HostNeed("firmware=uefi", "UEFI", "UEFI"), HostNeed("tpm=2", "a TPM", "TPM")
    gold = HostNeed("trait:CUSTOM_GOLD=forbidden", "the trait CUSTOM_GOLD", "CUSTOM_GOLD", forbidden=True)
    pages = HostNeed("pages=1GB", "pages of 1 GB")
    for needs, expected in (
        ((uefi,), {"kelvin", "ohm"}),
        ((uefi, gold), {"ohm"}),
        ((gold,), {"ohm", "tesla"}),
        ((uefi, tpm), {"ohm"}),
        ((pages,), set()),
    ):
        assert names(replace(SPEC, host_needs=needs), hosts) == expected
    lacking = replace(SPEC, host_needs=(uefi, tpm, gold))
    assert reasons([hosts[0], hosts[2]], lacking) == (
        "HostNeedsFilter",
        "1 host does not offer UEFI (firmware=uefi), 1 host does not offer a TPM (tpm=2)",
    )
    assert reasons([hosts[0]], replace(SPEC, host_needs=(gold,)))[1] == (
        "1 host has the trait CUSTOM_GOLD, which is forbidden (trait:CUSTOM_GOLD=forbidden)"
    )
    assert facts_needed(SPEC, DEFAULTS) & {"traits"} == set()
    assert "traits" in facts_needed(lacking, DEFAULTS)


@pytest.mark.parametrize(
    ("spec", "name", "reason"),
    [
        (
            group("anti-affinity", {"kelvin": 1}),
            "ServerGroupAntiAffinityFilter",
            "1 host already has a server of the group",
        ),
        (
            group("anti-affinity", {"kelvin": 2}, 2),
            "ServerGroupAntiAffinityFilter",
            "1 host already has 2 servers of the group",
        ),
        (
            group("affinity", {"ohm": 1}),
            "ServerGroupAffinityFilter",
            "1 host has no server of the group, whose policy requires one host",
        ),
        (
            replace(SPEC, same_hosts=frozenset()),
            "SameHostFilter",
            "1 host has no server that same_host names",
        ),
        (
            replace(SPEC, different_hosts=frozenset({KELVIN.id})),
            "DifferentHostFilter",
            "1 host has a server that different_host names",
        ),
        (replace(SPEC, requested_host="ohm"), "RequestedHostFilter", "1 host is not the requested host"),
        (
            replace(SPEC, aggregate_specs={"ssd": "true"}),
            "AggregateInstanceExtraSpecsFilter",
            "1 host is not in an aggregate that the size requires (ssd)",
        ),
    ],
)
def test_each_filter_says_why_for_users(spec: RequestSpec, name: str, reason: str) -> None:
    assert reasons([KELVIN], spec) == (name, reason)
    assert reason in explain(rank([KELVIN], spec))


def test_what_a_request_does_not_ask_is_not_reported() -> None:
    run = {result.name for result in rank(ALL, SPEC).filters}
    asked_always = {
        "ComputeFilter",
        "AvailabilityZoneFilter",
        "RetryFilter",
        "NumInstancesFilter",
        "IoOpsFilter",
    }
    assert run == asked_always | {"CoreFilter", "RamFilter", "DiskFilter"}


def test_a_requested_host_must_still_have_room_and_be_at_work() -> None:
    spec = replace(SPEC, requested_host="ohm")
    assert reasons([KELVIN, host("ohm", memory_mb_limit=1024)], spec)[0] == "RamFilter"
    assert reasons([KELVIN, host("ohm", enabled=False)], spec)[0] == "RequestedHostFilter"


@pytest.mark.parametrize(("policy", "first"), [("soft-affinity", "ohm"), ("soft-anti-affinity", "kelvin")])
def test_a_soft_policy_counts_more_than_free_memory(policy: str, first: str) -> None:
    hosts = [host("ohm", memory_mb_allocated=4096), host("kelvin", memory_mb_allocated=2048)]
    if policy == "soft-anti-affinity":
        hosts = [host("ohm"), host("kelvin", memory_mb_allocated=2048)]
    assert rank(hosts, group(policy, {"ohm": 1})).ranked[0].host.name == first


def test_a_soft_policy_gives_way_to_a_lack_of_room() -> None:
    full = host("ohm", memory_mb_allocated=8192)
    assert names(group("soft-affinity", {"ohm": 1}), [KELVIN, full]) == {"kelvin"}


def test_no_policy_but_the_two_hard_ones_forbids_anything() -> None:
    for policy in ("soft-affinity", "soft-anti-affinity"):
        assert group_allows(GroupSpec(policy, {OHM.id: 5}), OHM.id)
        assert group_allows(GroupSpec(policy, {OHM.id: 5}), uuid.uuid4())


@pytest.mark.parametrize(
    ("asked", "has", "passes"),
    [
        ("x86_64", "x86_64", True),
        ("amd64", "x86_64", True),
        ("aarch64", "arm64", True),
        ("aarch64", "x86_64", False),
        ("aarch64", "", True),
        ("", "aarch64", True),
    ],
)
def test_an_image_needs_its_processor(asked: str, has: str, passes: bool) -> None:
    spec = replace(SPEC, architecture=asked)
    assert bool(rank([host(architecture=has)], spec).ranked) is passes


@pytest.mark.parametrize(
    ("value", "requested", "expected"),
    [
        ("true", "true", True),
        ("true", "false", False),
        ("8", ">= 4", True),
        ("8", "= 4", True),
        ("3", "= 4", False),
        ("8", "== 4", False),
        ("4", "!= 4", False),
        ("4", "<= 4", True),
        ("four", ">= 4", False),
        ("b", "s> a", True),
        ("a", "s== a", True),
        ("gold-ssd", "<in> ssd", True),
        ("hdd", "<or> ssd <or> nvme", False),
        ("nvme", "<or> ssd <or> nvme", True),
        ("a b", "a b", True),
        ("", "", True),
        ("x", "", False),
    ],
)
def test_extra_specs_are_read_as_nova_does(value: str, requested: str, expected: bool) -> None:
    assert meets(value, requested) is expected


def test_every_key_must_be_met_by_one_of_the_aggregates() -> None:
    fast: dict[str, Any] = {"aggregate_metadata": {"ssd": frozenset({"true"}), "rack": frozenset({"1", "2"})}}
    spec = replace(SPEC, aggregate_specs={"ssd": "true", "rack": "2"})
    assert names(spec, [host("ohm", **fast), KELVIN]) == {"ohm"}
    assert names(replace(spec, aggregate_specs={"ssd": "true", "rack": "3"}), [host("ohm", **fast)]) == set()
