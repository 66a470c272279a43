"""What the settings make of the scheduler: names, an operator's own classes, multipliers, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from provisioning.scheduler import DEFAULTS, Options, RequestSpec, decide, explain, facts_needed, options_of
from provisioning.scheduler.condition import Filter
from provisioning.scheduler.filters import RequireZoneFilter
from provisioning.scheduler.options import FILTERS, WEIGHERS
from provisioning.scheduler.plugins import SchedulerSettingError
from provisioning.scheduler.weighers import Weigher
from tests.scheduler.test_ranking import SPEC, chance, host

OWN = "tests.scheduler.own_parts"
ROOT = Path(__file__).resolve().parents[2]


def options(**settings: Any) -> Options:
    return options_of(SimpleNamespace(**{f"SCHEDULER_{name}": value for name, value in settings.items()}))


def multipliers(made: Options) -> dict[str, float]:
    return {weigher.name: weigher.multiplier for weigher in made.weighers}


def test_without_settings_it_is_the_default() -> None:
    made, default = options(), DEFAULTS
    assert made.driver.name == "filter"
    assert [judge.name for judge in made.filters] == [judge.name for judge in default.filters]
    assert multipliers(made) == {
        "RAMWeigher": 1.0,
        "CPUWeigher": 1.0,
        "DiskWeigher": 1.0,
        "IoOpsWeigher": 1.0,
        "ServerGroupSoftAffinityWeigher": 10.0,
        "ServerGroupSoftAntiAffinityWeigher": 10.0,
        "BuildFailureWeigher": 2.0,
        "ImageCachedWeigher": 0.5,
    }


@pytest.mark.parametrize("part", [*FILTERS, *WEIGHERS, RequireZoneFilter()], ids=lambda part: part.name)
def test_a_filter_or_weigher_of_novella_is_called_by_its_class(part: Filter | Weigher) -> None:
    assert part.name == type(part).__name__


def test_what_was_made_of_the_same_settings_is_kept() -> None:
    assert options(FILTERS=["default"]) is options(FILTERS=["default"])
    assert options(SUBSET_SIZE=2) is not options(SUBSET_SIZE=3)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"PLACEMENT": "pack"}, {"RAMWeigher": -1.0, "CPUWeigher": -1.0, "DiskWeigher": -1.0, "IoOpsWeigher": 1.0}),
        ({"PLACEMENT": "pack", "RAM_WEIGHT": 2.5}, {"RAMWeigher": 2.5, "CPUWeigher": -1.0}),
        (
            {"PLACEMENT": "spread", "DISK_WEIGHT": 0.0, "IO_WEIGHT": -3.0},
            {"RAMWeigher": 1.0, "DiskWeigher": 0.0, "IoOpsWeigher": -3.0},
        ),
        (
            {"IMAGE_CACHED_WEIGHT": 4.0, "BUILD_FAILURE_WEIGHT": 0.0},
            {"ImageCachedWeigher": 4.0, "BuildFailureWeigher": 0.0},
        ),
        ({"SOFT_AFFINITY_WEIGHT": 1.0, "SOFT_ANTI_AFFINITY_WEIGHT": 2.0}, {"ServerGroupSoftAffinityWeigher": 1.0}),
    ],
)
def test_multipliers_are_those_of_the_settings(settings: dict[str, Any], expected: dict[str, float]) -> None:
    assert expected.items() <= multipliers(options(**settings)).items()


def test_filters_that_keep_promises_always_run() -> None:
    left_out = {judge.name for judge in FILTERS} - {judge.name for judge in options(FILTERS=[]).filters}
    assert left_out == {
        "ImagePropertiesFilter",
        "AggregateInstanceExtraSpecsFilter",
        "ComputeCapabilitiesFilter",
        "JsonFilter",
        "NumInstancesFilter",
        "IoOpsFilter",
    }
    named = [judge.name for judge in options(FILTERS=["RamFilter", "JsonFilter", "CoreFilter"]).filters]
    assert named[-3:] == ["RamFilter", "JsonFilter", "CoreFilter"]
    assert len(named) == len(set(named)) == len(FILTERS) - len(left_out) + 1


def test_limits_are_those_of_the_settings_unless_the_aggregates_say_another() -> None:
    made = options(MAX_INSTANCES_PER_HOST=3)
    hosts = [
        host("full", instances=3),
        host("ours", instances=3, max_instances=4),
        host("strict", instances=2, max_instances=2),
        host("none", max_instances=0),
        host("free", instances=2),
    ]
    assert {item.host.name for item in decide(hosts, SPEC, made).ranked} == {"ours", "free"}
    unlimited = {item.host.name for item in decide(hosts, SPEC, options()).ranked}
    assert unlimited == {"full", "ours", "free"}


def test_a_filter_of_ones_own_is_run_and_reported() -> None:
    made = options(FILTERS=["default", f"{OWN}.QuietHosts"])
    decision = decide([host("loud", instances=2), host("quiet", instances=1)], SPEC, made)
    assert [item.host.name for item in decision.ranked] == ["quiet"]
    assert (decision.filters[-1].name, decision.filters[-1].reason) == ("quiet", "1 of them are not quiet")
    assert decision.losses == {"quiet": ("loud",)}
    none = decide([host("loud", instances=2)], SPEC, made)
    assert explain(none) == "1 host → 0 are quiet: 1 of them are not quiet."


def test_a_part_without_a_name_has_its_path_for_one() -> None:
    assert options(FILTERS=["default", f"{OWN}.EmptierHalf"]).filters[-1].name == f"{OWN}.EmptierHalf"


def test_a_weigher_of_ones_own_weighs() -> None:
    made = options(WEIGHERS=["RAMWeigher", f"{OWN}.LastLetter"])
    ranked = decide([host("a"), host("c", memory_mb_allocated=4096), host("b")], SPEC, made).ranked
    assert [item.host.name for item in ranked] == ["c", "b", "a"]
    assert dict(ranked[0].parts) == {"RAMWeigher": 0.0, "last_letter": 7.0}
    assert dict(ranked[1].parts) == {"RAMWeigher": 1.0, "last_letter": 3.5}


def test_a_driver_of_ones_own_is_given_suitable_hosts_only() -> None:
    hosts = [host("c"), host("b"), host("a", alive=False), host("d")]
    decision = decide(hosts, SPEC, options(DRIVER=f"{OWN}.ByName"))
    assert [item.host.name for item in decision.ranked] == ["b", "c"]
    assert (decision.driver, decision.suitable, decision.hosts) == ("by-name", 3, 4)


def test_a_driver_that_chooses_none_is_named_to_blame() -> None:
    decision = decide([host("c")], SPEC, options(DRIVER=f"{OWN}.Nobody"))
    assert explain(decision) == "1 host is suitable, but the driver by-name chose none."


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"DRIVER": "best"}, ["NOVELLA_SCHEDULER_DRIVER", "'best'", "chance"]),
        ({"FILTERS": ["RamFilter", "rain"]}, ["NOVELLA_SCHEDULER_FILTERS", "'rain'", "NumInstancesFilter"]),
        ({"FILTERS": ["default", "RamFilter"]}, ["NOVELLA_SCHEDULER_FILTERS", "RamFilter twice"]),
        ({"WEIGHERS": ["RAMWeigher", f"{OWN}.OurRam"]}, ["NOVELLA_SCHEDULER_WEIGHERS", "the name 'RAMWeigher'"]),
        ({"WEIGHERS": [""]}, ["NOVELLA_SCHEDULER_WEIGHERS", "''"]),
        ({"WEIGHERS": ["no.such.Module"]}, ["NOVELLA_SCHEDULER_WEIGHERS", "cannot be imported", "no.such.Module"]),
        ({"FILTERS": [f"{OWN}.Nothing"]}, ["cannot be imported", "Nothing"]),
        ({"FILTERS": [f"{OWN}.LastLetter"]}, ["not a subclass of provisioning.scheduler.condition.Filter"]),
        ({"WEIGHERS": [f"{OWN}.NO_CLASS"]}, ["not a subclass of provisioning.scheduler.weighers.Weigher"]),
        ({"DRIVER": f"{OWN}.QuietHosts"}, ["not a subclass of provisioning.scheduler.driver.Driver"]),
        ({"FILTERS": [f"{OWN}.WithArguments"]}, ["cannot be created", "most"]),
        ({"FILTERS": ["provisioning.scheduler.resources.ResourceFilter"]}, ["cannot be created"]),
        ({"PLACEMENT": "pile"}, ["NOVELLA_SCHEDULER_PLACEMENT", "'pile'", "spread or pack"]),
    ],
)
def test_what_is_wrong_is_reported_in_a_sentence(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SchedulerSettingError) as refused:
        options(**settings)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("FILTERS", "default,no.such.Filter", "cannot be imported"),
        ("RAM_WEIGHT", "inf", "must be a number"),
        ("SUBSET_SIZE", "0", "must be a whole number"),
    ],
)
def test_a_wrong_setting_stops_the_start(tmp_path: Path, name: str, value: str, words: str) -> None:
    environment = {"NOVELLA_DATA": str(tmp_path), f"NOVELLA_SCHEDULER_{name}": value, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "import portal.settings"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert f"NOVELLA_SCHEDULER_{name}" in last
    assert words in last


def test_settings_of_the_environment_reach_the_scheduler(tmp_path: Path) -> None:
    given = {
        "DRIVER": "simple",
        "FILTERS": f"default, {OWN}.QuietHosts",
        "WEIGHERS": "RAMWeigher",
        "PLACEMENT": "pack",
        "MAX_IO_OPS_PER_HOST": "8",
    }
    environment = {"NOVELLA_DATA": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment |= {f"NOVELLA_SCHEDULER_{name}": value for name, value in given.items()}
    program = (
        "import portal.settings as s; from provisioning.scheduler import options_of; o = options_of(s);"
        "print(o.driver.name, o.filters[-1].name, [(w.name, w.multiplier) for w in o.weighers], o.max_io_ops_per_host)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "simple quiet [('RAMWeigher', -1.0)] 8"


def test_only_the_facts_that_are_looked_at_are_needed() -> None:
    image = replace(SPEC, image_id=host().id)
    assert facts_needed(SPEC, options()) == {"io_ops"}
    assert facts_needed(image, options()) == {"io_ops", "with_image"}
    assert facts_needed(image, options(FILTERS=[], IO_WEIGHT=0.0, IMAGE_CACHED_WEIGHT=0.0)) == set()
    assert facts_needed(replace(SPEC, aggregate_specs={"ssd": "true"}), options()) >= {"aggregate_metadata"}
    assert facts_needed(replace(SPEC, capabilities={"cpu_info:arch": "x86_64"}), options()) >= {"cpu_info"}
    assert facts_needed(replace(SPEC, query=["=", "$vcpus", 1]), options()) >= {"cpu_info", "io_ops"}
    assert facts_needed(SPEC, options(WEIGHERS=[f"{OWN}.LastLetter"], FILTERS=[])) == {"cpu_info", "hardware"}


def test_the_subset_is_of_any_driver() -> None:
    hosts = [host(f"h{number}", vcpus_allocated=number) for number in range(4)]
    made = options(DRIVER="simple", SUBSET_SIZE=2)
    firsts = {decide(hosts, RequestSpec(1, 1, 1), made, choose=chance(seed)).ranked[0].host.name for seed in range(50)}
    assert firsts == {"h0", "h1"}


def guide() -> str:
    """The section of the operator guide."""
    page = (ROOT / "docs/operator-guide.md").read_text()
    return page.partition("\n## Choosing hosts\n")[2].partition("\n## ")[0]


def test_the_guide_names_every_driver_filter_and_weigher() -> None:
    made = options()
    parts = [*made.filters, *made.weighers, *(options(DRIVER=name).driver for name in ("chance", "simple"))]
    assert [part.name for part in parts if f"`{part.name}`" not in guide()] == []
    starred = set(re.findall(r"`(\w+)` \*", guide()))
    assert starred == {judge.name for judge in options(FILTERS=[]).filters}


def test_the_example_of_the_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("acme_placement")
    exec(guide().partition("```python\n")[2].partition("```")[0], module.__dict__)  # noqa: S102 - our own page
    monkeypatch.setitem(sys.modules, "acme_placement", module)
    made = options(FILTERS=["default", "acme_placement.QuietHosts"], WEIGHERS=["acme_placement.OldHostsLast"])
    hosts = [host("old-1"), host("new"), host("loud", instances=20)]
    decision = decide(hosts, SPEC, made)
    assert [item.host.name for item in decision.ranked] == ["new", "old-1"]
    assert decision.filters[-1].reason == "1 of them have 20 servers or more"
