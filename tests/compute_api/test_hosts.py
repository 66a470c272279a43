"""Hosts, as they were up to microversion 2.42."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.hosts.models import Host
from provisioning.jobs.queue import worker_groups
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
HOSTS = f"{V21}/os-hosts"


def at(people: People, version: str) -> Api:
    return Api(people.operator, **{"OpenStack-API-Version": f"compute {version}"})


def test_every_service_of_every_machine_is_listed(people: People, cloud: Cloud) -> None:
    cloud.add_host("h2", zone="moon")
    worker_groups.beat("m1:boot:1.2", ["scheduler"])
    api = at(people, "2.42")
    assert api.get(HOSTS).json() == {
        "hosts": [
            {"host_name": "m1", "service": "conductor", "zone": "internal"},
            {"host_name": "m1", "service": "scheduler", "zone": "internal"},
            {"host_name": "h1", "service": "compute", "zone": "nova"},
            {"host_name": "h2", "service": "compute", "zone": "moon"},
        ]
    }
    assert [each["host_name"] for each in api.get(f"{HOSTS}?zone=moon").json()["hosts"]] == ["h2"]
    assert [each["host_name"] for each in api.get(f"{HOSTS}?service=compute").json()["hosts"]] == ["h1", "h2"]
    assert len(api.get(f"{HOSTS}?zone=&service=").json()["hosts"]) == 4
    api.put(f"{HOSTS}/h1", {"status": "disable"})
    assert [each["host_name"] for each in api.get(f"{HOSTS}?service=compute").json()["hosts"]] == ["h2"]


@pytest.mark.slow
def test_a_host_tells_what_each_project_takes(people: People, cloud: Cloud, api: Api) -> None:
    launch(api, cloud)
    launch(api, cloud, flavorRef="2")
    launch(Api(people.charlie), cloud)
    Host.objects.update(reserved_memory_mb=512)
    rows = [each["resource"] for each in at(people, "2.1").get(f"{HOSTS}/h1").json()["host"]]
    assert {row["host"] for row in rows} == {"h1"}
    result = {row["project"]: (row["cpu"], row["memory_mb"], row["disk_gb"]) for row in rows}
    assert result == {
        "(total)": (8, 8192, 100),
        "(used_now)": (6, 6144 + 512, 24),
        "(used_max)": (6, 6144, 24),
        people.alice.project_id.hex: (5, 5120, 22),
        people.charlie.project_id.hex: (1, 1024, 2),
    }
    assert at(people, "2.1").get(f"{HOSTS}/nowhere").status_code == 404


@pytest.mark.parametrize("word", ["disable", "DISABLE"])
def test_a_host_is_disabled_and_enabled(people: People, cloud: Cloud, word: str) -> None:
    api = at(people, "2.42")
    assert api.put(f"{HOSTS}/h1", {"status": word}).json() == {"host": "h1", "status": "disabled"}
    assert Host.objects.get().enabled is False
    assert api.put(f"{HOSTS}/h1", {"status": "Enable"}).json() == {"host": "h1", "status": "enabled"}
    assert Host.objects.get().enabled is True


@each_row(
    ("name", "body", "status"),
    [
        ("h1", {}, 400),
        ("h1", {"status": "off"}, 400),
        ("h1", {"status": "disable", "colour": "red"}, 400),
        ("h1", {"maintenance_mode": "enable"}, 501),
        ("h1", {"maintenance_mode": "enable", "status": "disable"}, 501),
        ("nowhere", {"status": "disable"}, 404),
    ],
)
def test_what_is_wrong_or_not_offered_changes_nothing(
    people: People, cloud: Cloud, name: str, body: dict[str, Any], status: int
) -> None:
    assert at(people, "2.42").put(f"{HOSTS}/{name}", body).status_code == status
    assert Host.objects.get().enabled is True


@pytest.mark.parametrize("verb", ["startup", "shutdown", "reboot"])
def test_the_power_of_machines_is_answered_as_not_offered(people: People, cloud: Cloud, verb: str) -> None:
    answer = at(people, "2.42").get(f"{HOSTS}/h1/{verb}")
    assert answer.status_code == 501
    assert "not offered" in answer.json()["notImplemented"]["message"]
    assert at(people, "2.42").get(f"{HOSTS}/nowhere/{verb}").status_code == 404


def test_they_are_gone_from_2_43_and_never_a_members(people: People, cloud: Cloud) -> None:
    api, member = at(people, "2.43"), Api(people.alice)
    for tail in ("", "/h1", "/h1/startup", "/h1/shutdown", "/h1/reboot"):
        assert api.get(f"{HOSTS}{tail}").status_code == 404
        assert member.get(f"{HOSTS}{tail}").status_code == 403
    assert api.put(f"{HOSTS}/h1", {"status": "disable"}).status_code == 404
    assert member.put(f"{HOSTS}/h1", {"status": "disable"}).status_code == 403
