"""What bin/conformance reads of a cloud and writes into tempest.conf, and which tests its lists choose."""

from __future__ import annotations

import configparser
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import each_row
from tools.bench.cloud import BenchError
from tools.conformance.tempest.configuration import Administrator, Settings, chosen, settings, text, with_changes
from tools.conformance.tempest.facts import Facts, Flavor, Image, discover
from tools.conformance.tempest.lists import LISTS, select

ADMIN = Administrator("http://192.0.2.1/identity/v3/", "admin", "pa$$%(s)word", "admin", region="North")
POOL = {
    "volume_backend_name": "ssd",
    "vendor_name": "Novella",
    "storage_protocol": "rbd",
    "online_extend_support": True,
    "manage": True,
}
ANSWERS: dict[tuple[str, str], Any] = {
    ("identity", "/v3/OS-TRUST/trusts"): {"trusts": []},
    ("compute", ""): {"version": {"version": "2.96"}},
    ("compute", "/flavors/detail"): {
        "flavors": [
            {"id": "2", "ram": 512, "disk": 1},
            {"id": "1", "ram": 96, "disk": 1},
            {"id": "0", "ram": 64, "disk": 0},
        ]
    },
    ("compute", "/os-hypervisors"): {"hypervisors": [{}, {}]},
    ("image", "/v2/images?status=active&visibility=public&limit=100"): {
        "images": [
            {"id": "large", "size": 9, "min_disk": 1, "min_ram": 0, "container_format": "bare", "disk_format": "qcow2"},
            {
                "id": "small",
                "size": 3,
                "min_disk": 0,
                "min_ram": 80,
                "container_format": "bare",
                "disk_format": "qcow2",
                "os_admin_user": "debian",
            },
            {"id": "kernel", "size": 1, "min_disk": 0, "min_ram": 0, "container_format": "aki"},
            {
                "id": "copy",
                "size": 1,
                "min_disk": 0,
                "min_ram": 0,
                "container_format": "bare",
                "disk_format": "qcow2",
                "image_type": "snapshot",
            },
        ]
    },
    ("image", "/v2/info/import"): {"import-methods": {"value": ["glance-direct"]}},
    ("image", "/v2/schemas/image"): {"properties": {"disk_format": {"enum": [None, "raw", "qcow2"]}}},
    ("network", "/v2.0/extensions"): {"extensions": [{"alias": "router"}, {"alias": "port-security"}]},
    ("network", "/v2.0/networks?router:external=true"): {
        "networks": [{"name": "empty", "id": "n0", "subnets": []}, {"name": "public", "id": "n1", "subnets": ["s"]}]
    },
    ("block-storage", "/scheduler-stats/get_pools?detail=true"): {"pools": [{"capabilities": POOL}]},
    ("block-storage", "/os-services?binary=cinder-backup"): {"services": [{"state": "up"}]},
    ("block-storage", "/types"): {"volume_types": [{"name": "many", "extra_specs": {"multiattach": "<is> True"}}]},
    ("block-storage", "/"): {"versions": [{"version": ""}, {"version": "3.71"}, {"version": "3.9"}]},
}
SERVICES = ("compute", "identity", "image", "network", "block-storage", "volumev3")


class Answers:
    """Answers requests from a table; what is not in it is not known."""

    def get(self, service: str, path: str) -> Any:
        return ANSWERS.get((service, path))


@pytest.fixture
def facts() -> Facts:
    return discover(Answers(), SERVICES, "u1")


def written(found: Settings) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(default_section="")
    parser.read_string(text(found))
    return {section: dict(parser[section]) for section in parser.sections()}


def test_a_cloud_is_found_out(facts: Facts) -> None:
    assert [image.id for image in facts.images] == ["small", "large"]
    assert [flavor.id for flavor in facts.flavors] == ["0", "1", "2"]
    assert facts.external_networks == {"public": "n1"}
    assert (facts.compute_microversion, facts.volume_microversion) == ("2.96", "3.71")
    assert (facts.trusts, facts.access_rules) == (True, False)
    assert (facts.multiattach_type, facts.backups, facts.vendor) == ("many", True, "Novella")


def test_tempest_is_reported(facts: Facts, tmp_path: Path) -> None:
    written_settings = written(settings(facts, ADMIN, tmp_path))
    assert written_settings["identity"]["uri_v3"] == "http://192.0.2.1/identity/v3"
    assert written_settings["identity"]["region"] == "North"
    assert written_settings["auth"]["admin_password"] == "pa$$$$%(s)word"  # the suite's library reads $$ as $
    compute = written_settings["compute"]
    assert (compute["image_ref"], compute["image_ref_alt"]) == ("small", "large")
    assert (compute["flavor_ref"], compute["flavor_ref_alt"]) == ("1", "2")
    assert (compute["min_compute_nodes"], compute["max_microversion"]) == ("2", "2.96")
    assert written_settings["network"] == {"public_network_id": "n1", "floating_network_name": "public"}
    assert written_settings["network-feature-enabled"]["api_extensions"] == "port-security,router"
    assert written_settings["volume"]["storage_protocol"] == "rbd"
    assert written_settings["volume-feature-enabled"] == {
        "backup": "true",
        "multi_backend": "false",
        "extend_attached_volume": "true",
        "extend_attached_encrypted_volume": "true",
        "manage_volume": "true",
        "manage_snapshot": "true",
    }
    assert written_settings["image"]["disk_formats"] == "raw,qcow2"
    assert written_settings["service_available"]["cinder"] == "true"
    assert written_settings["service_available"]["swift"] == "false"
    assert written_settings["validation"] == {"run_validation": "false"}


@each_row(
    "changed, section, option, value",
    [
        ({"pools": [POOL | {"vendor_name": "Other"}]}, "compute-feature-enabled", "live_migration", "true"),
        ({}, "compute-feature-enabled", "block_migration_for_live_migration", "true"),
        ({"pools": [POOL, POOL | {"volume_backend_name": "hdd"}]}, "volume", "backend_names", "hdd,ssd"),
        ({"multiattach_type": ""}, "compute-feature-enabled", "volume_multiattach", "false"),
        ({"external_networks": {}}, "network-feature-enabled", "floating_ips", "false"),
        ({"import_methods": frozenset()}, "image-feature-enabled", "import_image", "false"),
    ],
)
def test_what_a_cloud_offers_is_reported(
    facts: Facts, tmp_path: Path, changed: dict[str, Any], section: str, option: str, value: str
) -> None:
    assert settings(replace(facts, **changed), ADMIN, tmp_path)[section][option] == value


def test_guests_are_signed_in_to_as_their_image_says(facts: Facts, tmp_path: Path) -> None:
    values = settings(facts, ADMIN, tmp_path, ssh=True)
    assert values["scenario"] == {"img_file": str(tmp_path / "image"), "img_disk_format": "qcow2"}
    assert values["validation"] == {
        "run_validation": "true",
        "image_ssh_user": "debian",
        "image_alt_ssh_user": "debian",
    }


@each_row(
    "images, flavors",
    [
        ([], [Flavor("1", 64, 1), Flavor("2", 64, 1)]),
        ([Image("a", 1, 0, 0, "")], [Flavor("1", 64, 1)]),
        ([Image("a", 1, 5, 0, "")], [Flavor("1", 64, 1), Flavor("2", 64, 9)]),
        ([Image("a", 1, 0, 0, "")], [Flavor("1", 64, 9), Flavor("2", 128, 1)]),
    ],
)
def test_without_an_image_and_two_sizes_nothing_runs(images: list[Image], flavors: list[Flavor]) -> None:
    with pytest.raises(BenchError):
        chosen(Facts(frozenset(), images=images, flavors=flavors))


def test_lines_are_added_and_replaced() -> None:
    result = with_changes({"a": {"b": "c"}}, ["a.b=d=e", "new.x=1"])
    assert result == {"a": {"b": "d=e"}, "new": {"x": "1"}}
    with pytest.raises(BenchError, match="no-dot=1"):
        with_changes({}, ["no-dot=1"])


TESTS = [
    "tempest.api.compute.admin.test_x.T.test_admin[id-1]",
    "tempest.api.compute.servers.test_tags.T.test_tag[id-8d95abe2-c658-4c42-9a44-c0258500306b]",
    "tempest.api.compute.test_y.T.test_smoke[id-2,smoke]",
    "tempest.api.compute.test_y.T.test_slow[id-3,slow]",
    "tempest.api.object_storage.test_z.T.test_object[id-4,smoke]",
    "tempest.scenario.test_stamp_pattern.T.test_scenario[id-5]",
    "tempest.api.compute.test_y.T.test_plain",
]


@each_row(
    "name, pattern, numbers",
    [
        ("smoke", "", [2]),
        ("core", "", [1, 2, 6]),
        ("full", "", [0, 1, 2, 5, 6]),
        ("slow", "", [0, 1, 2, 3, 5, 6]),
        ("interop", "", [1]),
        ("full", "scenario|admin", [0, 5]),
    ],
)
def test_lists_choose_tests(name: str, pattern: str, numbers: list[int]) -> None:
    assert select(TESTS, name, pattern) == [TESTS[number] for number in numbers]
    assert name in LISTS


def test_guests_are_reached_when_asked_for() -> None:
    reaching = [f"tempest.scenario.test_{name}.T.test_a[id-9]" for name in ("network_basic_ops", "minimum_basic")]
    assert select([*TESTS, *reaching], "full", "scenario", ssh=True) == [TESTS[5], *reaching]
    assert select([*TESTS, *reaching], "full", "scenario") == [TESTS[5]]
