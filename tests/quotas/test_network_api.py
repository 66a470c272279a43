"""Quotas of the Networking API over HTTP."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from portal.api.common import faults
from provisioning.common.errors import OverQuotaError
from provisioning.network import services as network
from provisioning.quotas.selectors import limits_of
from provisioning.quotas.services.limits import set_limit
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db
V2 = "/network/v2.0/quotas"
DEFAULTS = {
    "network": 100,
    "subnet": 100,
    "port": 500,
    "router": 10,
    "floatingip": 50,
    "security_group": 10,
    "security_group_rule": 100,
    "subnetpool": 50,
    "rbac_policy": 100,
    "address_group": 50,
    "address_scope": 50,
}


@pytest.fixture
def operator_api(people: People) -> Api:
    return Api(people.operator)


@pytest.fixture
def path(people: People) -> str:
    return f"{V2}/{people.alice.project_id.hex}"


def test_an_operator_sets_lists_and_resets(path: str, operator_api: Api, people: People) -> None:
    project = people.alice.project_id
    set_limit(people.charlie.project_id, "cores", 1)
    assert operator_api.get(V2).json() == {"quotas": []}
    answer = operator_api.delete(path)
    assert (answer.status_code, answer.json()["NeutronError"]["type"]) == (404, "TenantQuotaNotFound")
    answer = operator_api.put(path, {"quota": {"port": 7, "router": "-1"}})
    assert answer.json() == {"quota": DEFAULTS | {"port": 7, "router": -1}}
    [listed] = operator_api.get(f"{V2}.json").json()["quotas"]
    assert listed == DEFAULTS | {"port": 7, "router": -1, "project_id": project.hex, "tenant_id": project.hex}
    assert operator_api.get(f"{path}/default").json() == {"quota": DEFAULTS}
    set_limit(project, "cores", 3)
    assert operator_api.delete(path).status_code == 204
    assert (limits_of(project)["ports"], limits_of(project)["cores"]) == (500, 3)


def test_a_reader_sees_their_own(path: str, people: People) -> None:
    bob, charlie = Api(people.bob), Api(people.charlie)
    assert bob.get(f"{path}.json").json() == {"quota": DEFAULTS}
    assert bob.get(f"{path}/default.json").json() == {"quota": DEFAULTS}
    for where in ("tenant", "project"):
        assert bob.get(f"{V2}/{where}").json()["tenant"]["tenant_id"] == people.bob.project_id.hex
    for tail in ("", "/details.json"):
        assert charlie.get(path + tail).status_code == 403
    for answer in (bob.put(path, {"quota": {"port": 9}}), bob.delete(path), bob.get(V2)):
        assert answer.status_code == 403


def test_details_tell_used_and_reserved_apart(path: str, people: People) -> None:
    cloud = Cloud.make()
    cloud.launch(people.alice.context)
    network.create_port(people.alice.project_id, cloud.network)
    shown = Api(people.bob).get(f"{path}/details.json").json()["quota"]
    assert shown["port"] == {"limit": 500, "used": 1, "reserved": 1}
    assert shown["security_group"] == {"limit": 10, "used": 1, "reserved": 0}
    assert set(shown) == set(DEFAULTS)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"port": -2}, "port"),
        ({"port": "-2"}, "port"),
        ({"port": 2**31}, "port"),
        ({"port": "9" * 400}, "port"),
        ({"port": None}, "port"),
        ({"port": True}, "port"),
        ({"port": []}, "port"),
        ({"ports": 1}, "ports"),
        ({"force": "yes"}, "force"),
        ([], "quota"),
    ],
)
def test_a_wrong_limit_is_named(path: str, operator_api: Api, people: People, change: Any, name: str) -> None:
    answer = operator_api.put(path, {"quota": change})
    assert answer.status_code == 400
    assert name in answer.json()["NeutronError"]["message"]
    assert limits_of(people.alice.project_id)["ports"] == 500


def test_a_limit_below_what_is_used_needs_force(path: str, operator_api: Api, people: People) -> None:
    cloud = Cloud.make()
    for _ in range(2):
        network.create_port(people.alice.project_id, cloud.network)
    for more in ({}, {"check_limit": True}, {"force": False}):
        answer = operator_api.put(path, {"quota": {"port": 1, **more}})
        assert answer.status_code == 400
        assert "already used and reserved 2" in answer.json()["NeutronError"]["message"]
    for more in ({"check_limit": False}, {"force": True}):
        assert operator_api.put(path, {"quota": {"port": 1, **more}}).json()["quota"]["port"] == 1


def test_quotas_of_a_project_that_identity_does_not_know_are_kept(operator_api: Api) -> None:
    unknown = uuid.UUID(int=5).hex
    path, volumes = f"{V2}/{unknown}", f"/volume/v3/os-quota-sets/{unknown}"
    for tail in ("", "/default"):
        assert operator_api.get(path + tail).json() == {"quota": DEFAULTS}
    assert operator_api.put(path, {"quota": {"port": 7}}).json()["quota"]["port"] == 7
    assert operator_api.get(f"{path}/details").json()["quota"]["port"]["limit"] == 7
    assert operator_api.delete(path).status_code == 204
    assert operator_api.get(path).json() == {"quota": DEFAULTS}
    assert operator_api.put(volumes, {"quota_set": {"volumes": 3}}).json()["quota_set"]["volumes"] == 3
    assert operator_api.get(volumes).json()["quota_set"]["volumes"] == 3
    assert operator_api.delete(volumes).status_code == 200


@pytest.mark.parametrize("project", ["nonsense", "a%00b"])
def test_what_is_no_id_of_a_project_is_not_found(operator_api: Api, project: str) -> None:
    for tail in ("", "/default", "/details"):
        assert operator_api.get(f"{V2}/{project}{tail}").status_code == 404
    assert operator_api.put(f"{V2}/{project}", {"quota": {}}).status_code == 404
    assert operator_api.delete(f"{V2}/{project}").status_code == 404


def test_over_quota_is_a_conflict_with_neutrons_message(people: People) -> None:
    cloud = Cloud.make()
    set_limit(people.alice.project_id, "ports", 1)
    network.create_port(people.alice.project_id, cloud.network)
    with pytest.raises(OverQuotaError) as caught:
        network.create_port(people.alice.project_id, cloud.network)
    assert faults.status_of(caught.value, "network") == 409
    body = faults.body("network", 409, caught.value.message, caught.value)["NeutronError"]
    assert body["type"] == "OverQuota"
    assert body["message"] == "Quota exceeded for ports: Requested 1, but already used 1 of 1 ports (0 left)"
