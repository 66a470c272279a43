"""Hypervisors in the shape of each microversion."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
HYPERVISORS = f"{V21}/os-hypervisors"
UPTIME = " 08:32:11 up 93 days, 18:25,  0 users,  load average: 0.20, 0.12, 0.14"
BRIEF = {"id", "hypervisor_hostname", "state", "status"}
RESOURCES = {
    "vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb", "local_gb", "local_gb_used", "free_disk_gb",
    "disk_available_least", "running_vms", "current_workload",
}  # fmt: skip
WHOLE = BRIEF | {"host_ip", "hypervisor_type", "hypervisor_version", "service"}


def at(people: People, version: str) -> Api:
    return Api(people.operator, **{"OpenStack-API-Version": f"compute {version}"})


@pytest.fixture
@standing
def host(cloud: Cloud) -> Host:
    info = {"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": "pge,clflush"}
    Host.objects.update(uptime=UPTIME, cpu_info=info | {"sockets": "4", "cores": "1", "threads": "2"})
    return Host.objects.get()


def shown(api: Api, ident: object, query: str = "") -> dict[str, Any]:
    result: dict[str, Any] = api.get(f"{HYPERVISORS}/{ident}{query}").json()["hypervisor"]
    return result


@each_row(
    ("version", "fields"),
    [
        ("2.1", WHOLE | RESOURCES | {"cpu_info"}),
        ("2.28", WHOLE | RESOURCES | {"cpu_info"}),
        ("2.53", WHOLE | RESOURCES | {"cpu_info"}),
        ("2.87", WHOLE | RESOURCES | {"cpu_info"}),
        ("2.88", WHOLE | {"uptime"}),
        ("2.96", WHOLE | {"uptime"}),
    ],
)
def test_fields_come_and_go_with_their_microversions(
    people: People, host: Host, version: str, fields: set[str]
) -> None:
    api = at(people, version)
    [listed] = api.get(HYPERVISORS).json()["hypervisors"]
    [detailed] = api.get(f"{HYPERVISORS}/detail").json()["hypervisors"]
    assert listed.keys() == BRIEF
    assert detailed.keys() == fields
    assert shown(api, listed["id"]) == detailed
    uuids = version in ("2.53", "2.87", "2.88", "2.96")
    assert isinstance(listed["id"], str) is uuids
    assert isinstance(detailed["service"]["id"], str) is uuids
    assert detailed["service"] == {"id": listed["id"], "host": "h1", "disabled_reason": None}


def test_the_processor_is_a_text_before_2_28_and_an_object_from_then(people: People, host: Host) -> None:
    expected = {
        "arch": "x86_64",
        "model": "Nehalem",
        "vendor": "Intel",
        "features": ["pge", "clflush"],
        "topology": {"sockets": 4, "cores": 1, "threads": 2},
    }
    [old] = at(people, "2.27").get(f"{HYPERVISORS}/detail").json()["hypervisors"]
    [new] = at(people, "2.28").get(f"{HYPERVISORS}/detail").json()["hypervisors"]
    assert json.loads(old["cpu_info"]) == new["cpu_info"] == expected
    Host.objects.update(cpu_info={"model": "odd", "cores": "many", "threads": "9" * 99})
    [odd] = at(people, "2.28").get(f"{HYPERVISORS}/detail").json()["hypervisors"]
    assert odd["cpu_info"]["topology"] == {}


def test_what_is_promised_to_servers_counts_as_used(people: People, host: Host, api: Api, cloud: Cloud) -> None:
    Host.objects.update(reserved_memory_mb=512, reserved_disk_gb=10, disk_gb_used=30)
    launch(api, cloud)
    server = launch(api, cloud)
    Instance.objects.filter(id=server).update(task_state="powering-off", task_deadline=timezone.now())
    hypervisor = shown(at(people, "2.87"), host.id)
    assert {name: hypervisor[name] for name in RESOURCES - {"running_vms"}} == {
        "vcpus": 8,
        "vcpus_used": 2,
        "memory_mb": 8192,
        "memory_mb_used": 2048 + 512,
        "free_ram_mb": 8192 - 2560,
        "local_gb": 100,
        "local_gb_used": 14,
        "free_disk_gb": 86,
        "disk_available_least": 70,
        "current_workload": 1,
    }


def test_a_host_that_is_silent_or_disabled_says_so(people: People, host: Host) -> None:
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1), enabled=False, disabled_reason="new fan")
    hypervisor = shown(at(people, "2.88"), host.id)
    assert (hypervisor["state"], hypervisor["status"], hypervisor["uptime"]) == ("down", "disabled", None)
    assert hypervisor["service"]["disabled_reason"] == "new fan"


# ----- lists ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["", "/detail"])
def test_pages_from_2_33(people: People, host: Host, cloud: Cloud, tail: str) -> None:
    for name in ("h2", "h3"):
        cloud.add_host(name)
    assert len(at(people, "2.32").get(f"{HYPERVISORS}{tail}?limit=1").json()["hypervisors"]) == 3
    for version in ("2.33", "2.53", "2.96"):
        api, path, seen = at(people, version), f"{HYPERVISORS}{tail}?limit=2", []
        for _ in range(3):
            body = api.get(path).json()
            seen += [each["hypervisor_hostname"] for each in body["hypervisors"]]
            if "hypervisors_links" not in body:
                break
            [link] = body["hypervisors_links"]
            assert link["rel"] == "next"
            path = link["href"][link["href"].index(V21) :]
            assert path.startswith(f"{HYPERVISORS}{tail}?limit=2&marker=")
        assert seen == ["h1", "h2", "h3"]
        assert api.get(f"{HYPERVISORS}{tail}?marker=nothing").status_code == 400
        assert api.get(f"{HYPERVISORS}{tail}?limit=-1").status_code == 400


def test_a_pattern_from_2_53(people: People, host: Host, cloud: Cloud) -> None:
    cloud.add_host("rack-1")
    api = at(people, "2.53")
    hypervisors = api.get(f"{HYPERVISORS}?hypervisor_hostname_pattern=ack").json()["hypervisors"]
    assert [each["hypervisor_hostname"] for each in hypervisors] == ["rack-1"]
    assert api.get(f"{HYPERVISORS}?hypervisor_hostname_pattern=moon").status_code == 404
    assert api.get(f"{HYPERVISORS}/detail?hypervisor_hostname_pattern=moon").status_code == 404
    assert api.get(f"{HYPERVISORS}?hypervisor_hostname_pattern=a%20b").status_code == 400
    assert api.get(f"{HYPERVISORS}?hypervisor_hostname_pattern=h&limit=1").status_code == 400
    assert api.get(f"{HYPERVISORS}?colour=red").status_code == 400
    assert api.get(f"{HYPERVISORS}?with_servers=maybe").status_code == 400
    old = at(people, "2.52").get(f"{HYPERVISORS}?hypervisor_hostname_pattern=moon&colour=red")
    assert len(old.json()["hypervisors"]) == 2


@pytest.mark.slow
def test_servers_from_2_53_and_always_a_list_from_2_75(people: People, host: Host, cloud: Cloud, api: Api) -> None:
    server = launch(api, cloud, name="web")
    gone = launch(api, cloud, name="gone")
    api.delete(f"{V21}/servers/{gone}")
    cloud.run()
    empty = cloud.add_host("h2").host
    expected = [{"name": "web", "uuid": server}]
    for version, of_empty in (("2.53", None), ("2.74", None), ("2.75", []), ("2.96", [])):
        operator = at(people, version)
        for tail in ("", "/detail"):
            first, second = operator.get(f"{HYPERVISORS}{tail}?with_servers=true").json()["hypervisors"]
            assert first["servers"] == expected
            assert second.get("servers") == of_empty
            assert "servers" not in operator.get(f"{HYPERVISORS}{tail}").json()["hypervisors"][0]
        assert shown(operator, host.id, "?with_servers=1")["servers"] == expected
        assert shown(operator, empty.id, "?with_servers=1").get("servers") == of_empty
        assert "servers" not in shown(operator, host.id, "?with_servers=false")


def test_search_and_servers_up_to_2_52(people: People, host: Host, cloud: Cloud, api: Api) -> None:
    server = launch(api, cloud, name="web")
    cloud.add_host("h2")
    old, new = at(people, "2.52"), at(people, "2.53")
    [hypervisor] = old.get(f"{HYPERVISORS}/h1/search").json()["hypervisors"]
    assert hypervisor.keys() == BRIEF
    first, second = old.get(f"{HYPERVISORS}/h/servers").json()["hypervisors"]
    assert first["servers"] == [{"name": "web", "uuid": server}]
    assert second.keys() == BRIEF
    for tail in ("search", "servers"):
        assert old.get(f"{HYPERVISORS}/moon/{tail}").status_code == 404
        assert new.get(f"{HYPERVISORS}/h1/{tail}").status_code == 404


# ----- one hypervisor -------------------------------------------------------------------------------------------------


def test_ids_are_those_of_the_version(people: People, host: Host) -> None:
    number = at(people, "2.52").get(HYPERVISORS).json()["hypervisors"][0]["id"]
    assert at(people, "2.52").get(f"{HYPERVISORS}/{number}").status_code == 200
    assert at(people, "2.52").get(f"{HYPERVISORS}/{host.id}").status_code == 404
    assert at(people, "2.52").get(f"{HYPERVISORS}/{'9' * 40}").status_code == 404
    assert at(people, "2.53").get(f"{HYPERVISORS}/{number}").status_code == 400
    assert at(people, "2.53").get(f"{HYPERVISORS}/{host.id}").status_code == 200
    nobody = "00000000-0000-0000-0000-000000000000"
    assert at(people, "2.53").get(f"{HYPERVISORS}/{nobody}").status_code == 404


def test_uptime_up_to_2_87(people: People, host: Host) -> None:
    api = at(people, "2.87")
    hypervisor = api.get(f"{HYPERVISORS}/{host.id}/uptime").json()["hypervisor"]
    assert hypervisor.keys() == BRIEF | {"uptime"}
    assert hypervisor["uptime"] == UPTIME
    assert at(people, "2.88").get(f"{HYPERVISORS}/{host.id}/uptime").status_code == 404
    assert shown(at(people, "2.88"), host.id)["uptime"] == UPTIME
    Host.objects.update(forced_down=True)
    assert api.get(f"{HYPERVISORS}/{host.id}/uptime").status_code == 400


def test_statistics_sum_up_what_is_enabled_up_to_2_87(people: People, host: Host, cloud: Cloud) -> None:
    cloud.add_host("h2")
    cloud.add_host("h3")
    Host.objects.filter(name="h3").update(enabled=False)
    statistics = at(people, "2.87").get(f"{HYPERVISORS}/statistics").json()["hypervisor_statistics"]
    assert statistics.keys() == RESOURCES | {"count"}
    assert (
        statistics["count"],
        statistics["vcpus"],
        statistics["memory_mb"],
        statistics["local_gb"],
    ) == (2, 16, 16384, 200)
    assert at(people, "2.88").get(f"{HYPERVISORS}/statistics").status_code == 404
    Host.objects.update(enabled=False)
    nothing = at(people, "2.1").get(f"{HYPERVISORS}/statistics").json()["hypervisor_statistics"]
    assert set(nothing.values()) == {0}
    assert nothing.keys() == statistics.keys()


@pytest.mark.parametrize("tail", ["", "/detail"])
def test_a_list_costs_the_same_however_many_there_are(
    people: People, host: Host, cloud: Cloud, tail: str, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        cloud.add_host(f"more-{number}")
    api = at(people, "2.87")
    api.get(HYPERVISORS)
    with django_assert_max_num_queries(5):
        assert len(api.get(f"{HYPERVISORS}{tail}?with_servers=1").json()["hypervisors"]) == 6
