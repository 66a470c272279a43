"""Versions, limits, quotas, zones, services and hypervisors over HTTP."""

from __future__ import annotations

import pytest

from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db


def test_version_documents_need_no_token() -> None:
    nobody = Api(None)
    listed = nobody.get("/compute/").json()["versions"][-1]
    shown = nobody.get("/compute/v2.1/").json()["version"]
    assert listed["id"] == shown["id"] == "v2.1"
    assert (shown["min_version"], shown["version"]) == ("2.1", "2.96")
    assert shown["links"][0]["href"].endswith("/compute/v2.1/")


def test_limits_count_what_is_used(api: Api, new_api: Api, cloud: Cloud) -> None:
    launch(api, cloud)
    absolute = api.get(f"{V21}/limits").json()["limits"]["absolute"]
    assert (absolute["maxTotalInstances"], absolute["totalInstancesUsed"]) == (10, 1)
    assert (absolute["maxTotalRAMSize"], absolute["totalRAMUsed"]) == (51200, 1024)
    assert "maxSecurityGroups" in absolute
    newest = new_api.get(f"{V21}/limits").json()["limits"]["absolute"]
    assert not {"maxSecurityGroups", "maxImageMeta", "maxPersonality"} & set(newest)


def test_quota_sets_are_ones_own(api: Api, cloud: Cloud, people: People) -> None:
    own, foreign = people.alice.project_id.hex, people.charlie.project_id.hex
    assert api.get(f"{V21}/os-quota-sets/{own}").json()["quota_set"]["instances"] == 10
    assert api.get(f"{V21}/os-quota-sets/{own}/detail").json()["quota_set"]["cores"]["limit"] == 20
    assert api.get(f"{V21}/os-quota-sets/{foreign}").status_code == 403
    assert Api(people.operator).get(f"{V21}/os-quota-sets/{foreign}").status_code == 200


def test_zones_for_everybody_hosts_for_operators(api: Api, cloud: Cloud, people: People) -> None:
    [zone] = api.get(f"{V21}/os-availability-zone").json()["availabilityZoneInfo"]
    assert (zone["zoneName"], zone["hosts"]) == ("nova", None)
    operator = Api(people.operator)
    for path in ("os-availability-zone/detail", "os-services", "os-hypervisors", "os-hypervisors/detail"):
        assert api.get(f"{V21}/{path}").status_code == 403
        assert operator.get(f"{V21}/{path}").status_code == 200
    [hypervisor] = operator.get(f"{V21}/os-hypervisors/detail").json()["hypervisors"]
    assert (hypervisor["vcpus"], hypervisor["memory_mb"], hypervisor["local_gb"]) == (8, 8192, 100)
    assert operator.get(f"{V21}/os-hypervisors/{hypervisor['id']}").status_code == 200
    assert operator.get(f"{V21}/os-hypervisors/5").status_code == 404


def test_an_operator_disables_a_host_and_says_why(cloud: Cloud, people: People, api: Api) -> None:
    operator = Api(people.operator, **{"OpenStack-API-Version": "compute 2.53"})
    [service] = operator.get(f"{V21}/os-services").json()["services"]
    assert (service["binary"], service["state"], service["status"]) == ("nova-compute", "up", "enabled")
    answer = operator.put(f"{V21}/os-services/{service['id']}", {"status": "disabled", "disabled_reason": "new fan"})
    assert answer.json()["service"]["disabled_reason"] == "new fan"
    ident = launch(api, cloud)
    assert api.get(f"{V21}/servers/{ident}").json()["server"]["status"] == "ERROR"


@pytest.mark.parametrize("path", ["/nope", "/servers/x/y/z", "/os-unicorns"])
def test_unknown_paths_answer_in_novas_shape(api: Api, path: str) -> None:
    answer = api.get(f"{V21}{path}")
    assert answer.status_code == 404
    assert "itemNotFound" in answer.json()
