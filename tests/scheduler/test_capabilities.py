"""What flavors and images demand of hosts: capabilities with Nova's operators, hypervisors and their versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from provisioning.scheduler import Facts, HostState, explain
from provisioning.scheduler.flavor_demands import ALL, LISTS, NAMES, NUMBERS, WORDS
from provisioning.scheduler.image_demands import is_version
from provisioning.scheduler.operators import meets
from tests.scheduler.test_ranking import SPEC, host, reasons
from tests.support.ranking import rank

CPU = {
    "arch": "x86_64",
    "model": "EPYC-Rome",
    "vendor": "AMD",
    "features": "aes,avx2,sse4.2",
    "sockets": "2",
    "cores": "16",
    "threads": "2",
}


def state_with(**changes: Any) -> HostState:
    """A host that says all there is to say."""
    facts = Facts(cpu_info={host().raw_id: CPU}, io_ops={host().raw_id: 3})
    own = {"hypervisor_type": "KVM", "hypervisor_version": 8_002_000, "instances": 4, "failed_builds": 1}
    used = {"vcpus_allocated": 5, "memory_mb_allocated": 2048, "disk_gb_allocated": 30}
    return host()._replace(facts=facts, **(own | used | changes))


@pytest.mark.parametrize(
    ("name", "requested", "passes"),
    [
        ("hypervisor_type", "KVM", True),
        ("hypervisor_type", "QEMU", False),
        ("hypervisor_type", "<or> QEMU <or> KVM", True),
        ("hypervisor_type", "s!= KVM", False),
        ("hypervisor_version", ">= 8000000", True),
        ("hypervisor_version", "= 9000000", False),
        ("hypervisor_version", "8002000", True),
        ("cpu_info:arch", "x86_64", True),
        ("cpu_info:vendor", "s== AMD", True),
        ("cpu_info:model", "<in> EPYC", True),
        ("cpu_info:model", "<in> Xeon", False),
        ("cpu_info:features", "<in> aes", True),
        ("cpu_info:features", "<in> sse4", False),
        ("cpu_info:features", "<all-in> aes avx2", True),
        ("cpu_info:features", "<all-in> aes avx512", False),
        ("cpu_info:features", "aes", False),
        ("cpu_info:features", "s== aes", False),
        ("cpu_info:topology:cores", "= 8", True),
        ("cpu_info:topology:cores", "== 8", False),
        ("cpu_info:topology:sockets", "2", True),
        ("cpu_info:topology:threads", "<= 1", False),
        ("cpu_info:stepping", "1", False),
        ("free_ram_mb", ">= 6144", True),
        ("free_ram_mb", ">= 6145", False),
        ("free_disk_mb", "== 71680", True),
        ("free_disk_gb", "== 70", True),
        ("total_usable_ram_mb", "== 8192", True),
        ("vcpus_total", "== 8", True),
        ("vcpus_used", "== 5", True),
        ("num_instances", "<= 3", False),
        ("num_io_ops", "== 3", True),
        ("failed_builds", "== 0", False),
        ("host", "kelvin", True),
        ("nothing_of_ours", "1", False),
        ("free_ram_mb:deeper", "1", False),
        ("", "", False),
    ],
)
def test_a_flavor_asks_for_capabilities(name: str, requested: str, passes: bool) -> None:
    assert bool(rank([state_with()], replace(SPEC, capabilities={name: requested})).ranked) is passes


def test_every_capability_must_be_met_and_the_reason_names_them() -> None:
    spec = replace(SPEC, capabilities={"hypervisor_type": "KVM", "cpu_info:vendor": "Intel"})
    name, reason = reasons([state_with()], spec)
    assert name == "ComputeCapabilitiesFilter"
    assert reason == "1 host does not have the capabilities that the size requires (cpu_info:vendor, hypervisor_type)"
    assert "1 host → 0 have the required capabilities" in explain(rank([state_with()], spec))


@pytest.mark.parametrize("name", [*NUMBERS, *WORDS, *LISTS, *NAMES])
def test_what_can_be_asked_is_reported(name: str) -> None:
    assert ALL[name](state_with()) not in ("", frozenset())
    assert isinstance(ALL[name](host()), int | str | frozenset)


@pytest.mark.parametrize("count", ["", "two", "-1", "1234567", "²"])
def test_topologies_are_numbers(count: str) -> None:
    odd = host()._replace(facts=Facts(cpu_info={host().raw_id: {"cores": count}}))
    assert ALL["cpu_info.topology.cores"](odd) == 0


@pytest.mark.parametrize(
    ("value", "requested", "expected"),
    [
        ("aes avx", "<all-in> aes avx", True),
        ("aes", "<all-in>", False),
        (frozenset({"aes", "avx"}), "<or> aes", False),
        (frozenset({"5"}), ">= 4", False),
        ("5", ">=4", False),
        ("nan", ">= 4", False),
        ("4", "== nan", False),
    ],
)
def test_operators_of_several_words(value: Any, requested: str, expected: bool) -> None:
    assert meets(value, requested) is expected


@pytest.mark.parametrize(
    ("wanted", "has", "passes"),
    [
        ("kvm", "KVM", True),
        (" KVM ", "kvm", True),
        ("qemu", "KVM", True),
        ("kvm", "QEMU", False),
        ("xen", "KVM", False),
        ("xen", "", True),
        ("", "KVM", True),
    ],
)
def test_an_image_needs_its_hypervisor(wanted: str, has: str, passes: bool) -> None:
    spec = replace(SPEC, hypervisor_type=wanted)
    assert bool(rank([host(hypervisor_type=has)], spec).ranked) is passes


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (">=8.0", True),
        (">= 8.2, <9", True),
        (">8.2", False),
        ("==8.2.0", True),
        ("==8.2", True),
        ("!=8.2.0", False),
        ("<8.2.1", True),
        ("<=8.1.999", False),
        (">=6.0,<8", False),
        ("8.2.0", False),
        (">=", False),
        ("", False),
        (">=8.0,", False),
        (">=8.2.0.0.0", False),
        (">=٨", False),
        (">=" + "9" * 400, False),
    ],
)
def test_versions_are_compared_part_by_part(wanted: str, expected: bool) -> None:
    assert is_version(8_002_000, wanted) is expected


def test_an_image_needs_a_version_of_its_hypervisor() -> None:
    spec = replace(SPEC, hypervisor_type="kvm", hypervisor_versions=">=9.0")
    old = host("old", hypervisor_type="KVM", hypervisor_version=8_002_000)
    new = host("new", hypervisor_type="KVM", hypervisor_version=9_000_000)
    assert [item.host.name for item in rank([old, new], spec).ranked] == ["new"]
    assert rank([host("silent", hypervisor_type="KVM")], spec).ranked
    assert reasons([old], spec) == (
        "ImagePropertiesFilter",
        "1 host does not have the hypervisor that the image needs (kvm >=9.0)",
    )


def test_what_each_host_lacks_for_an_image_that_needs_both_is_reported() -> None:
    spec = replace(SPEC, architecture="x86_64", hypervisor_type="kvm", hypervisor_versions=">=9.0")
    arm = host("arm", architecture="aarch64", hypervisor_type="KVM", hypervisor_version=9_000_000)
    old = host("old", architecture="x86_64", hypervisor_type="KVM", hypervisor_version=8_002_000)
    name, reason = reasons([arm, old], spec)
    assert name == "ImagePropertiesFilter"
    assert reason == (
        "1 host has another processor than the image needs (x86_64), "
        "1 host does not have the hypervisor that the image needs (kvm >=9.0)"
    )
    for hosts, requested in (([arm], replace(spec, hypervisor_type="", hypervisor_versions="")), ([old], spec)):
        assert len(rank(hosts, requested).filters[-1].reason.split(", ")) == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"architecture": "x86_64"}, "have the processor"),
        ({"hypervisor_type": "xen"}, "have the hypervisor"),
        ({"architecture": "x86_64", "hypervisor_type": "xen"}, "have what the image needs"),
    ],
)
def test_hosts_that_suit_an_image_are_reported_with_what_it_asks_for(asked: dict[str, str], words: str) -> None:
    other = host(architecture="aarch64", hypervisor_type="KVM")
    assert rank([other], replace(SPEC, **asked)).filters[-1].words == words
