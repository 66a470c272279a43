"""Availability zones: for everybody the names, for operators the hosts and workers."""

from __future__ import annotations

import pytest

from provisioning.hosts.models import Host
from provisioning.jobs.queue import worker_groups
from tests.compute_api.conftest import V21
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db
ZONES = f"{V21}/os-availability-zone"


def test_a_member_sees_names_and_no_hosts(api: Api, cloud: Cloud) -> None:
    cloud.add_host("h2", zone="moon")
    cloud.add_host("h3", zone="mars")
    cloud.add_host("h4", zone="internal")
    Host.objects.filter(name="h3").update(enabled=False)
    worker_groups.beat("m1:boot:1.2", ["scheduler"])
    assert api.get(ZONES).json() == {
        "availabilityZoneInfo": [
            {"zoneName": "moon", "zoneState": {"available": True}, "hosts": None},
            {"zoneName": "nova", "zoneState": {"available": True}, "hosts": None},
            {"zoneName": "mars", "zoneState": {"available": False}, "hosts": None},
        ]
    }
    assert api.get(f"{ZONES}/detail").status_code == 403


def test_an_operator_sees_hosts_and_the_workers(people: People, cloud: Cloud) -> None:
    cloud.add_host("h2", zone="moon")
    Host.objects.filter(name="h2").update(forced_down=True)
    cloud.add_host("h3", zone="mars")
    cloud.add_host("h4", zone="internal")
    Host.objects.filter(name="h3").update(enabled=False)
    worker_groups.beat("m1:boot:1.2", ["images", "scheduler"])
    zones = Api(people.operator).get(f"{ZONES}/detail").json()["availabilityZoneInfo"]
    by_name = {zone["zoneName"]: zone for zone in zones}
    assert [zone["zoneName"] for zone in zones] == ["internal", "moon", "nova", "mars"]
    assert by_name["internal"]["hosts"]["m1"].keys() == {"nova-scheduler", "nova-conductor"}
    assert by_name["internal"]["hosts"]["h4"].keys() == {"nova-compute"}, "Nova lists both there"
    assert by_name["mars"] == {"zoneName": "mars", "zoneState": {"available": False}, "hosts": None}
    state = by_name["nova"]["hosts"]["h1"]["nova-compute"]
    assert (state["active"], state["available"]) == (True, True)
    assert state["updated_at"].endswith(Host.objects.get(name="h1").last_seen_at.strftime(":%S.%f"))  # type: ignore[union-attr]
    assert by_name["moon"]["hosts"]["h2"]["nova-compute"]["available"] is False
