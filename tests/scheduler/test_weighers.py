"""What each weigher likes, how much it says, and spread against pack."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from provisioning.scheduler import Facts, GroupSpec, HostState, RequestSpec, decide, options_of
from provisioning.scheduler.options import WEIGHERS
from tests.scheduler.test_ranking import SPEC, chance, host


def order(hosts: list[HostState], spec: RequestSpec = SPEC, **settings: Any) -> list[str]:
    options = options_of(SimpleNamespace(**{f"SCHEDULER_{name}": value for name, value in settings.items()}))
    return [item.host.name for item in decide(hosts, spec, options, choose=chance(1)).ranked]


@pytest.mark.parametrize(
    ("weigher", "setting", "worse"),
    [
        ("RAMWeigher", "RAM_WEIGHT", {"memory_mb_allocated": 1}),
        ("CPUWeigher", "CPU_WEIGHT", {"vcpus_allocated": 1}),
        ("DiskWeigher", "DISK_WEIGHT", {"disk_gb_allocated": 1}),
        ("BuildFailureWeigher", "BUILD_FAILURE_WEIGHT", {"failed_builds": 1}),
    ],
)
def test_a_weigher_likes_one_and_its_negative_the_other(weigher: str, setting: str, worse: dict[str, int]) -> None:
    hosts = [host("worse", **worse), host("better")]
    assert order(hosts, WEIGHERS=[weigher]) == ["better", "worse"]
    assert order(hosts, WEIGHERS=[weigher], **{setting: -1.0}) == ["worse", "better"]


def test_hosts_that_build_much_come_last() -> None:
    facts = Facts(io_ops={host("busy").raw_id: 3, host("busier").raw_id: 5})
    hosts = [host(name)._replace(facts=facts) for name in ("busier", "idle", "busy")]
    assert order(hosts, WEIGHERS=["IoOpsWeigher"]) == ["idle", "busy", "busier"]
    assert order(hosts, WEIGHERS=["IoOpsWeigher"], IO_WEIGHT=-1.0) == ["busier", "busy", "idle"]


def test_hosts_with_the_image_come_first() -> None:
    facts = Facts(with_image=frozenset({host("ohm").raw_id}))
    hosts = [host(name)._replace(facts=facts) for name in ("kelvin", "ohm", "tesla")]
    spec = replace(SPEC, image_id=host().id)
    assert order(hosts, spec)[0] == "ohm"
    decision = decide(hosts, SPEC, options_of(SimpleNamespace()))
    assert dict(decision.ranked[0].parts) == {}


def test_raw_ids_of_any_database_are_recognised() -> None:
    for form in (lambda each: each.hex, str, lambda each: each):
        hosts = [host(name)._replace(raw_id=form(host(name).id)) for name in ("kelvin", "ohm", "tesla")]
        members = {host("ohm").id: 1}
        assert order(hosts, replace(SPEC, group=GroupSpec("affinity", members))) == ["ohm"]
        assert set(order(hosts, replace(SPEC, group=GroupSpec("anti-affinity", members)))) == {"kelvin", "tesla"}
        assert order(hosts, replace(SPEC, group=GroupSpec("soft-affinity", members)))[0] == "ohm"
        assert order(hosts, replace(SPEC, group=GroupSpec("soft-anti-affinity", members)))[-1] == "ohm"
        assert order(hosts, replace(SPEC, same_hosts=frozenset(members))) == ["ohm"]
        assert set(order(hosts, replace(SPEC, different_hosts=frozenset(members)))) == {"kelvin", "tesla"}
        assert set(order(hosts, replace(SPEC, excluded_hosts=frozenset(members)))) == {"kelvin", "tesla"}


def test_spread_takes_the_emptiest_and_pack_the_fullest_that_has_room() -> None:
    hosts = [host(f"h{used}", memory_mb_allocated=used * 1024, vcpus_allocated=used) for used in (0, 2, 4, 7)]
    assert order(hosts) == ["h0", "h2", "h4"]
    assert order(hosts, PLACEMENT="pack") == ["h4", "h2", "h0"]


def test_a_weight_is_the_sum_of_its_parts_scaled_between_worst_and_best() -> None:
    hosts = [
        host("a", memory_mb_allocated=4096, vcpus_allocated=0),
        host("b", memory_mb_allocated=1024, vcpus_allocated=8),
        host("c", memory_mb_allocated=0, vcpus_allocated=16),
    ]
    options = options_of(SimpleNamespace(SCHEDULER_RAM_WEIGHT=2.0))
    parts = {item.host.name: dict(item.parts) for item in decide(hosts, SPEC, options).ranked}
    assert parts == {
        "a": {"RAMWeigher": 0.0, "CPUWeigher": 1.0},
        "b": {"RAMWeigher": 1.5, "CPUWeigher": 0.5},
        "c": {"RAMWeigher": 2.0, "CPUWeigher": 0.0},
    }
    for item in decide(hosts, SPEC, options).ranked:
        assert item.weight == pytest.approx(sum(item.parts.values()))


@pytest.mark.parametrize("weigher", WEIGHERS, ids=lambda weigher: weigher.name)
def test_all_at_once_is_one_by_one(weigher: Any) -> None:
    facts = Facts(io_ops={host("ohm").raw_id: 2}, with_image=frozenset({host("kelvin").raw_id}))
    changes = {"memory_mb_allocated": 9999, "vcpus_allocated": 3, "disk_gb_allocated": 120, "failed_builds": 4}
    hosts = [host(name)._replace(facts=facts) for name in ("kelvin", "ohm")] + [host("tesla", **changes)]
    for policy in ("soft-affinity", "soft-anti-affinity", "affinity"):
        spec = replace(SPEC, group=GroupSpec(policy, {host("ohm").id: 2}), image_id=host().id)
        assert weigher.weigh_all(hosts, spec) == [weigher.weigh(each, spec) for each in hosts]
