"""A decision in words for users: how many hosts each filter has left, and what was asked against what there is."""

from __future__ import annotations

from dataclasses import asdict, replace

from provisioning.scheduler import DEFAULTS, RequestSpec, decide, explain, funnel
from provisioning.scheduler.ranking import NAMED_LOSSES
from tests.scheduler.test_ranking import SPEC, host
from tests.support.ranking import rank

HOSTS = [
    *[host(f"dead{number}", alive=False) for number in range(2)],
    host("small", memory_mb_limit=1024),
    *[host(f"h{number}", disk_gb_limit=5 + number) for number in range(3)],
]


def test_the_sentence_counts_what_is_left_and_names_the_lack() -> None:
    decision = decide(HOSTS, SPEC, DEFAULTS)
    sentence = "6 hosts → 4 are up → 3 have enough memory → 0 have enough disk: 10 GiB requested, at most 7 GiB free."
    assert explain(decision) == funnel(decision) == sentence


def test_one_is_reported_in_the_singular() -> None:
    decision = decide([*HOSTS, host("good")], replace(SPEC, vcpus=1), DEFAULTS)
    assert funnel(decision) == "7 hosts → 5 are up → 4 have enough memory → 1 has enough disk."
    assert explain(decision) == ""


def test_when_all_will_do_it_says_so() -> None:
    assert funnel(decide([host()], SPEC, DEFAULTS)) == "1 host, all suitable."


def test_each_filter_says_amounts_for_pages_to_draw() -> None:
    results = {item.name: item for item in decide(HOSTS, SPEC, DEFAULTS).filters}
    disk, ram = results["DiskFilter"], results["RamFilter"]
    assert (disk.asked, disk.most, disk.unit, disk.words) == (10, 7, "GiB", "have enough disk")
    assert (ram.asked, ram.most, ram.unit, ram.after) == (2048, 8192, "MiB", 3)
    assert (results["CoreFilter"].asked, results["ComputeFilter"].asked) == (None, None)
    assert all(item.seconds >= 0 for item in results.values())
    assert set(asdict(disk)) == {"name", "before", "after", "reason", "words", "asked", "most", "unit", "seconds"}


def test_amounts_that_differ_do_not_read_the_same() -> None:
    spec = RequestSpec(1, 1540, 1)
    assert "1540 MiB requested, at most 1536 MiB free" in explain(rank([host(memory_mb_limit=1536)], spec))


def test_losses_name_the_first_hosts_of_each_filter_for_operators_only() -> None:
    many = [host(f"dead{number:02}", alive=False) for number in range(NAMED_LOSSES + 5)]
    decision = decide([*HOSTS[2:], *many], SPEC, DEFAULTS)
    assert decision.losses == {
        "ComputeFilter": tuple(f"dead{number:02}" for number in range(NAMED_LOSSES)),
        "RamFilter": ("small",),
        "DiskFilter": ("h0", "h1", "h2"),
    }
    assert not any(name.rstrip("0123456789") in explain(decision) for name in ("dead00", "small", "kelvin"))


def test_more_was_given_out_than_there_is() -> None:
    assert "the most is 0" in rank([host(vcpus_allocated=99)], SPEC).filters[-1].reason
    free = replace(SPEC, vcpus=0, memory_mb=0, disk_gb=0)
    over = host(vcpus_allocated=99, memory_mb_allocated=9999, disk_gb_allocated=999)
    assert rank([over], free).ranked
