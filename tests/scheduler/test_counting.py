"""How many guests find a place, one after the other, and where."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from provisioning.scheduler import (
    DEFAULTS,
    Facts,
    GroupSpec,
    HostState,
    Options,
    RequestSpec,
    explain,
    how_many,
    options_of,
    ranking,
    room_for,
)
from tests.scheduler.test_ranking import SPEC, chance, host

OWN = "tests.scheduler.own_parts"


def options(**settings: Any) -> Options:
    return options_of(SimpleNamespace(**{f"SCHEDULER_{name}": value for name, value in settings.items()}))


def where(hosts: list[HostState], spec: RequestSpec = SPEC, most: int = 100, **settings: Any) -> dict[str, int]:
    count = how_many(hosts, spec, options(**settings), most, choose=chance(3))
    assert count.fits == sum(count.where.values())
    return dict(count.where)


def test_each_host_takes_what_it_has_room_for() -> None:
    hosts = [
        host("four"),
        host("three", memory_mb_limit=6500),
        host("none", alive=False),
        host("one", disk_gb_limit=19),
    ]
    assert where(hosts) == {"four": 4, "three": 3, "one": 1}


def test_when_counting_ends_for_lack_of_room_the_lack_is_explained() -> None:
    count = how_many([host("four"), host("also")], SPEC, DEFAULTS, 100)
    assert (count.fits, count.most) == (8, 100)
    assert explain(count.decision) == "2 hosts → 0 have enough memory: 2 GiB requested, at most 0 MiB free."


def test_when_all_find_a_place_the_first_decision_is_reported() -> None:
    count = how_many([host("four"), host("also")], SPEC, DEFAULTS, 3)
    assert (count.fits, count.decision.suitable) == (3, 2)
    assert {item.host.instances for item in count.decision.ranked} == {0}


@pytest.mark.parametrize(("placement", "expected"), [("spread", [2, 2]), ("pack", [4])])
def test_fewer_than_there_is_room_for_go_where_the_driver_says(placement: str, expected: list[int]) -> None:
    assert sorted(where([host("a"), host("b")], most=4, PLACEMENT=placement).values()) == expected


def test_nothing_is_asked_or_nothing_fits() -> None:
    assert where([host()], most=0) == {}
    count = how_many([host(alive=False)], SPEC, DEFAULTS, 5)
    assert (count.fits, count.most, count.decision.suitable) == (0, 5, 0)


@pytest.mark.parametrize(
    ("policy", "members", "most", "expected"),
    [
        ("anti-affinity", {}, 1, [1, 1, 1]),
        ("anti-affinity", {"a": 1}, 1, [1, 1]),
        ("anti-affinity", {"a": 1}, 3, [2, 3, 3]),
        ("affinity", {}, 1, [4]),
        ("affinity", {"b": 1}, 1, [4]),
        ("soft-affinity", {}, 1, [4, 4, 4]),
    ],
)
def test_a_group_takes_them_all_in(policy: str, members: dict[str, int], most: int, expected: list[int]) -> None:
    group = GroupSpec(policy, {host(name).id: many for name, many in members.items()}, most)
    result = where([host("a"), host("b"), host("c")], replace(SPEC, group=group))
    assert sorted(result.values()) == expected


@pytest.mark.parametrize(("policy", "expected"), [("soft-affinity", [3]), ("soft-anti-affinity", [1, 1, 1])])
def test_soft_groups_are_together_or_apart_while_there_is_room(policy: str, expected: list[int]) -> None:
    hosts = [host("a"), host("b", memory_mb_allocated=1024), host("c", memory_mb_allocated=2048)]
    assert sorted(where(hosts, replace(SPEC, group=GroupSpec(policy)), most=3).values()) == expected


def test_limits_of_number_end_it_as_well() -> None:
    facts = Facts(io_ops={host("b").raw_id: 1})
    hosts = [host("a"), host("b")._replace(facts=facts), host("c", max_instances=1), host("d", instances=4)]
    assert where(hosts, MAX_INSTANCES_PER_HOST=5, MAX_IO_OPS_PER_HOST=3) == {"a": 3, "b": 2, "c": 1, "d": 1}


def test_wishes_are_heeded_as_the_hosts_fill() -> None:
    spec = replace(SPEC, query=[">", "$free_ram_mb", 4096], capabilities={"num_instances": "<= 1"})
    assert where([host("a"), host("b", memory_mb_limit=6144)], spec) == {"a": 2, "b": 1}


def test_the_zone_of_the_settings_is_heeded() -> None:
    hosts = [host("here"), host("there", availability_zone="moon")]
    assert where(hosts, DRIVER="availability-zone", DEFAULT_ZONE="moon") == {"there": 4}
    assert where(hosts, DRIVER="availability-zone", DEFAULT_ZONE="moon", most=2) == {"there": 2}


def test_filters_and_drivers_of_ones_own_are_asked() -> None:
    assert where([host("a"), host("b", instances=1)], FILTERS=["default", f"{OWN}.QuietHosts"]) == {"a": 2, "b": 1}
    assert where([host("a"), host("b")], FILTERS=["default", f"{OWN}.EmptierHalf"]) == {"a": 3, "b": 3}
    assert where([host("a"), host("b"), host("c")], DRIVER=f"{OWN}.ByName") == {"a": 4, "b": 4, "c": 4}
    assert where([host("a")], DRIVER=f"{OWN}.Nobody") == {}


def test_the_filters_go_over_many_hosts_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Counter[int] = Counter()
    apply_filters = ranking.apply_filters

    def counted(hosts: list[HostState], *rest: Any) -> Any:
        looked[len(hosts)] += 1
        return apply_filters(hosts, *rest)

    monkeypatch.setattr(ranking, "apply_filters", counted)
    hosts = [host(f"h{number}") for number in range(300)]
    assert how_many(hosts, SPEC, DEFAULTS, 50).fits == 50
    assert looked[300] <= 3


# ----- room of the cloud ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3, 10, 1000])
@pytest.mark.parametrize("allocated", [0, 1, 3])
def test_the_room_is_what_a_count_finds(most: int, allocated: int) -> None:
    hosts = [
        host("four", vcpus_allocated=allocated),
        host("three", memory_mb_limit=6500),
        host("none", alive=False),
        host("two", max_instances=2),
        host("one", disk_gb_limit=19),
    ]
    assert room_for(hosts, SPEC, DEFAULTS, most) == how_many(hosts, SPEC, DEFAULTS, most).fits


@pytest.mark.parametrize("own", ["QuietHosts", "EmptierHalf"])
def test_the_room_is_also_counted_with_filters_of_an_operator(own: str) -> None:
    result = options(FILTERS=["default", f"{OWN}.{own}"])
    hosts = [host("four"), host("also"), host("silent", alive=False)]
    assert room_for(hosts, SPEC, result, 1000) == how_many(hosts, SPEC, result, 100).fits


def test_builds_in_progress_do_not_limit_the_room() -> None:
    spec = options(MAX_IO_OPS_PER_HOST=2)
    assert how_many([host("four")], SPEC, spec, 100).fits == 2
    assert room_for([host("four")], SPEC, spec, 100) == 4
