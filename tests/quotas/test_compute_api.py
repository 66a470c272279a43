"""os-quota-sets, os-quota-class-sets and limits over HTTP, in the shape of each microversion."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.network import services as network
from provisioning.quotas.selectors import default_limits, limits_of
from provisioning.quotas.services.limits import set_limit
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
V21 = "/compute/v2.1"
ALWAYS = {"instances", "cores", "ram", "metadata_items", "key_pairs", "server_groups", "server_group_members"}
INJECTED = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
NETWORKS = {"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}


def at(version: str) -> dict[str, str]:
    return {"OpenStack-API-Version": f"compute {version}"}


@pytest.fixture
def path(people: People) -> str:
    return f"{V21}/os-quota-sets/{people.alice.project_id.hex}"


@pytest.fixture
def operator_api(people: People) -> Api:
    return Api(people.operator)


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2.1", ALWAYS | INJECTED | NETWORKS),
        ("2.35", ALWAYS | INJECTED | NETWORKS),
        ("2.36", ALWAYS | INJECTED),
        ("2.56", ALWAYS | INJECTED),
        ("2.57", ALWAYS),
        ("2.73", ALWAYS),
    ],
)
def test_each_version_has_its_names(
    path: str, operator_api: Api, people: People, version: str, names: set[str]
) -> None:
    alice = Api(people.alice)
    for tail in ("", "/defaults", "/detail"):
        shown = alice.get(path + tail, **at(version)).json()["quota_set"]
        assert shown.pop("id") == people.alice.project_id.hex
        assert set(shown) == names
    changed = operator_api.put(path, {"quota_set": {"cores": 5}}, **at(version)).json()["quota_set"]
    assert set(changed) == names, "no id, as in Nova"
    for name in (INJECTED | NETWORKS) - names:
        refused = operator_api.put(path, {"quota_set": {name: -1}}, **at(version))
        assert refused.status_code == 400
        assert name in refused.json()["badRequest"]["message"]


def test_an_operator_sets_and_resets(path: str, operator_api: Api, people: People) -> None:
    body = {"quota_set": {"cores": 5, "ram": "-1", "security_groups": 7, "floating_ips": "8", "fixed_ips": "9"}}
    assert operator_api.put(path, body).status_code == 200
    limits = limits_of(people.alice.project_id)
    assert (limits["cores"], limits["ram"], limits["security_groups"], limits["floatingips"]) == (5, -1, 7, 8)
    assert limits["fixed_ips"] == 9
    set_limit(people.alice.project_id, "ports", 3)
    assert operator_api.get(f"{path}/defaults").json()["quota_set"]["cores"] == 20
    answer = operator_api.delete(path)
    assert (answer.status_code, answer.content) == (202, b"")
    limits = limits_of(people.alice.project_id)
    assert (limits["cores"], limits["fixed_ips"], limits["ports"]) == (20, 50, 3), "what is another service's stays"
    assert limits_of(people.charlie.project_id)["cores"] == 20


def test_addresses_are_counted_where_they_are_shown(path: str, operator_api: Api, people: People) -> None:
    """Nova's ``fixed_ips``: in quota sets up to 2.35, in quota class sets up to 2.49."""
    project = people.alice.project_id
    network.create_port(project, Cloud.make().network)
    api, operator = Api(people.alice), operator_api
    old, new = at("2.35"), at("2.36")
    unset = {"limit": -1, "in_use": 1, "reserved": 0}
    assert api.get(f"{path}/detail", **old).json()["quota_set"]["fixed_ips"] == unset
    for where in (path, f"{path}/defaults"):
        shown = api.get(where, **old).json()["quota_set"]
        assert {shown[name] for name in NETWORKS} == {-1}, "Nova has no such limits any more"
    assert "fixed_ips" in operator.put(path, {"quota_set": {"fixed_ips": 0}}, **old).json()["badRequest"]["message"]
    assert operator.put(path, {"quota_set": {"fixed_ips": 0, "force": True}}, **old).status_code == 200
    assert operator.put(path, {"quota_set": {"fixed_ips": 5}}, **new).status_code == 400
    assert "fixed_ips" not in api.get(path, **new).json()["quota_set"]
    assert limits_of(project)["fixed_ips"] == api.get(path, **old).json()["quota_set"]["fixed_ips"] == 0
    assert operator.delete(path, **new).status_code == 202
    assert limits_of(project)["fixed_ips"] == 0, "a version that does not know it leaves it alone"
    classes = f"{V21}/os-quota-class-sets/default"
    assert operator.put(classes, {"quota_class_set": {"fixed_ips": 7}}, **at("2.49")).status_code == 200
    assert operator.put(classes, {"quota_class_set": {"fixed_ips": 8}}, **at("2.50")).status_code == 400
    assert limits_of(people.charlie.project_id)["fixed_ips"] == 7
    assert operator.get(classes, **at("2.49")).json()["quota_class_set"]["fixed_ips"] == 7
    assert "fixed_ips" not in operator.get(classes, **at("2.50")).json()["quota_class_set"]


@each_row(
    ("defaults", "own", "limit"),
    [
        ({}, {}, 50),
        ({}, {"instances": 40}, 50),
        ({}, {"instances": 100}, 100),
        ({}, {"ports": 80, "instances": 60}, 80),
        ({}, {"ports": -1}, -1),
        ({}, {"ports": 80, "fixed_ips": 9}, 9),
        ({"instances": 70}, {}, 70),
        ({"instances": 70, "fixed_ips": 30}, {}, 30),
        ({"instances": 70, "fixed_ips": 30}, {"ports": 40}, 40),
        ({"fixed_ips": -1}, {"ports": 40}, -1),
    ],
)
def test_addresses_follow_what_clients_can_set(
    people: People, defaults: dict[str, int], own: dict[str, int], limit: int
) -> None:
    """``openstack quota set`` has no word for addresses, and raises what they are needed for."""
    project = people.alice.project_id
    for whose, limits in ((None, defaults), (project, own)):
        for resource, value in limits.items():
            set_limit(whose, resource, value)
    assert limits_of(project)["fixed_ips"] == limit
    if not own:
        assert default_limits()["fixed_ips"] == limit


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"cores": -2}, "cores"),
        ({"cores": "-2"}, "cores"),
        ({"cores": 2**31}, "cores"),
        ({"cores": "9999999999"}, "cores"),
        ({"cores": "9" * 5000}, "cores"),
        ({"cores": None}, "cores"),
        ({"cores": True}, "cores"),
        ({"cores": 1.5}, "cores"),
        ({"cores": "\u0663"}, "cores"),
        ({"cores": [1]}, "cores"),
        ({"fixed_ips": -2}, "fixed_ips"),
        ({"unicorns": 1}, "unicorns"),
        ({"volumes": 1}, "volumes"),
        ({"force": "perhaps"}, "force"),
        ([], "quota_set"),
    ],
)
def test_a_wrong_limit_is_named(path: str, operator_api: Api, people: People, change: Any, name: str) -> None:
    answer = operator_api.put(path, {"quota_set": change})
    assert answer.status_code == 400, answer.content
    assert name in answer.json()["badRequest"]["message"]
    assert limits_of(people.alice.project_id)["cores"] == 20


@pytest.mark.parametrize("body", [None, {}, [], {"quota_set": {}, "more": 1}, "x"])
def test_a_wrong_body_is_refused(path: str, operator_api: Api, body: Any) -> None:
    assert operator_api.put(path, body).status_code == 400


def test_a_limit_below_what_is_used_needs_force(path: str, operator_api: Api, people: People) -> None:
    Cloud.make().launch(people.alice.context)
    answer = operator_api.put(path, {"quota_set": {"ram": 1000, "cores": 9}})
    assert answer.status_code == 400
    assert "Quota limit 1000 for ram must be greater than or equal to already used and reserved 1024" in str(
        answer.json()
    )
    assert limits_of(people.alice.project_id)["cores"] == 20
    for force in (True, "True"):
        changed = operator_api.put(path, {"quota_set": {"ram": 1000, "force": force}}).json()["quota_set"]
        assert changed["ram"] == 1000


def test_in_use_and_reserved_are_distinguished(path: str, people: People) -> None:
    cloud = Cloud.make()
    cloud.add_host("kelvin")
    cloud.launch(people.alice.context)
    cloud.run()
    cloud.launch(people.alice.context)
    create_key_pair(people.alice.context, "laptop")
    alice = Api(people.alice)
    shown = alice.get(f"{path}/detail").json()["quota_set"]
    assert shown["ram"] == {"limit": 51_200, "in_use": 1024, "reserved": 1024}
    assert shown["security_group_rules"] == {"limit": -1, "in_use": 4, "reserved": 0}
    assert shown["key_pairs"]["in_use"] == 0
    shown = alice.get(f"{path}/detail?user_id={people.alice.user_id.hex}").json()["quota_set"]
    assert shown["key_pairs"] == {"limit": 100, "in_use": 1, "reserved": 0}
    absolute = alice.get(f"{V21}/limits?reserved=1").json()["limits"]["absolute"]
    assert (absolute["totalRAMUsed"], absolute["totalInstancesUsed"], absolute["totalSecurityGroupsUsed"]) == (
        2048,
        2,
        1,
    )


@pytest.mark.parametrize("version", ["2.1", "2.36", "2.57", "2.96"])
def test_one_user_has_limits_of_its_own(path: str, operator_api: Api, people: People, version: str) -> None:
    api, of_user = Api(people.alice, **at(version)), f"?user_id={people.alice.user_id.hex}"
    operator = Api(people.operator, **at(version))
    whole = api.get(path).json()["quota_set"]
    assert api.get(path + of_user).json()["quota_set"] == whole
    changed = operator.put(path + of_user, {"quota_set": {"cores": 3, "key_pairs": "2"}})
    assert (changed.status_code, changed.json()["quota_set"]) == (
        200,
        {name: value for name, value in (whole | {"cores": 3, "key_pairs": 2}).items() if name != "id"},
    )
    cloud = Cloud.make()
    cloud.launch(people.alice.context)
    create_key_pair(people.alice.context, "laptop")
    assert api.get(path + of_user).json()["quota_set"] == whole | {"cores": 3, "key_pairs": 2}
    detail = api.get(f"{path}/detail{of_user}").json()["quota_set"]
    assert detail.keys() == whole.keys()
    assert detail["cores"] == {"limit": 3, "in_use": 0, "reserved": 1}
    assert detail["key_pairs"] == {"limit": 2, "in_use": 1, "reserved": 0}
    of_other = f"?user_id={people.bob.user_id.hex}"
    assert api.get(f"{path}/detail{of_other}").json()["quota_set"]["cores"] == {"limit": 20, "in_use": 0, "reserved": 0}
    assert api.get(path).json()["quota_set"] == whole
    assert api.get(f"{V21}/limits").json()["limits"]["absolute"]["maxTotalCores"] == 20
    networks = {} if version < "2.37" else {"networks": "auto"}
    requested = {"name": "x", "imageRef": str(cloud.image.id), "flavorRef": "2", **networks}
    refused = api.post(f"{V21}/servers", {"server": requested})
    assert (refused.status_code, "Quota exceeded for cores" in str(refused.json())) == (403, True)
    answer = operator.delete(path + of_user)
    assert (answer.status_code, answer.content) == (202, b"")
    assert api.get(path + of_user).json()["quota_set"] == whole


def test_limits_of_users_are_operators_to_set_within_the_projects(path: str, operator_api: Api, people: People) -> None:
    of_user = f"?user_id={people.alice.user_id.hex}"
    alice = Api(people.alice)
    assert alice.put(path + of_user, {"quota_set": {"cores": 1}}).status_code == 403
    assert alice.delete(path + of_user).status_code == 403
    for query, body, word in (
        (of_user, {"cores": 21}, "less than or equal to 20"),
        (of_user, {"cores": -1}, "less than or equal to 20"),
        (f"?user_id={uuid.UUID(int=5).hex}", {"cores": 1}, "user_id"),
        ("?user_id=nobody", {"cores": 1}, "user_id"),
    ):
        answer = operator_api.put(path + query, {"quota_set": body})
        assert (answer.status_code, word in str(answer.json())) == (400, True), query
    assert operator_api.put(path + of_user, {"quota_set": {"cores": 21, "force": True}}).status_code == 200
    nobody = operator_api.get(f"{path}/detail?user_id=nobody").json()["quota_set"]
    assert nobody["cores"] == {"limit": 20, "in_use": 0, "reserved": 0}
    assert operator_api.get(f"{path}?user_id=").json() == operator_api.get(path).json()
    assert operator_api.delete(f"{path}?user_id=nobody").status_code == 202
    assert operator_api.get(path + of_user).json()["quota_set"]["cores"] == 21


@pytest.mark.parametrize("project", [uuid.UUID(int=5).hex, "nonsense", "x" * 300])
def test_an_unknown_project_is_refused(operator_api: Api, project: str) -> None:
    for answer in (
        operator_api.get(f"{V21}/os-quota-sets/{project}"),
        operator_api.get(f"{V21}/os-quota-sets/{project}/detail"),
        operator_api.get(f"{V21}/os-quota-sets/{project}/defaults"),
        operator_api.put(f"{V21}/os-quota-sets/{project}", {"quota_set": {}}),
        operator_api.delete(f"{V21}/os-quota-sets/{project}"),
    ):
        assert answer.status_code == 400
        assert "is not a valid project" in answer.json()["badRequest"]["message"]
    limits = operator_api.get(f"{V21}/limits?tenant_id={project}").json()["limits"]["absolute"]
    assert (limits["maxTotalInstances"], limits["totalInstancesUsed"]) == (10, 0), "Nova asks Identity for no limits"


def test_a_project_that_no_database_looks_up(operator_api: Api) -> None:
    for method in (operator_api.get, operator_api.delete):
        assert method(f"{V21}/os-quota-sets/a%00b").status_code == 404
    assert operator_api.put(f"{V21}/os-quota-sets/a%00b", {"quota_set": {}}).status_code == 404
    assert operator_api.get(f"{V21}/limits?tenant_id=a%00b").status_code == 200


def test_only_operators_change_and_see_others(path: str, people: People) -> None:
    alice, charlie = Api(people.alice), Api(people.charlie)
    assert alice.put(path, {"quota_set": {"cores": 100}}).status_code == 403
    assert alice.delete(path).status_code == 403
    for tail in ("", "/detail"):
        assert charlie.get(path + tail).status_code == 403
    assert charlie.get(f"{path}/defaults").status_code == 200
    assert alice.get(f"{V21}/os-quota-class-sets/default").status_code == 403
    assert charlie.get(f"{V21}/limits?tenant_id={people.alice.project_id}").status_code == 403
    assert Api(people.operator).get(f"{V21}/limits?tenant_id={people.alice.project_id}").status_code == 200


def test_the_default_class_holds_for_everybody_without_own_limits(operator_api: Api, people: People) -> None:
    where = f"{V21}/os-quota-class-sets/default"
    assert operator_api.get(where).json()["quota_class_set"]["id"] == "default"
    changed = operator_api.put(where, {"quota_class_set": {"cores": 3, "security_groups": 1}})
    assert changed.status_code == 200
    assert "id" not in changed.json()["quota_class_set"]
    assert changed.json()["quota_class_set"]["cores"] == 3
    assert operator_api.put(where, {"quota_class_set": {"volumes": 4}}).status_code == 400
    assert limits_of(people.alice.project_id)["cores"] == 3
    shown = Api(people.alice).get(f"{V21}/limits", **at("2.57")).json()["limits"]["absolute"]
    assert shown["maxTotalCores"] == 3
    assert operator_api.put(where, {"quota_class_set": {"cores": -2}}).status_code == 400
    assert operator_api.put(where, {"quota_class_set": {"force": True}}).status_code == 400
    gold = operator_api.get(f"{V21}/os-quota-class-sets/gold").json()["quota_class_set"]
    assert (gold["id"], gold["cores"]) == ("gold", 3), "there is one class, and every name shows it"
    refused = operator_api.put(f"{V21}/os-quota-class-sets/gold", {"quota_class_set": {"cores": 1}})
    assert (refused.status_code, limits_of(people.alice.project_id)["cores"]) == (400, 3)


GROUPS = {"server_groups", "server_group_members"}


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2.1", ALWAYS - GROUPS | INJECTED | NETWORKS),
        ("2.49", ALWAYS - GROUPS | INJECTED | NETWORKS),
        ("2.50", ALWAYS | INJECTED),
        ("2.56", ALWAYS | INJECTED),
        ("2.57", ALWAYS),
        ("2.96", ALWAYS),
    ],
)
def test_classes_have_their_names_in_each_version(operator_api: Api, version: str, names: set[str]) -> None:
    where = f"{V21}/os-quota-class-sets/default"
    assert set(operator_api.get(where, **at(version)).json()["quota_class_set"]) == names | {"id"}
    changed = operator_api.put(where, {"quota_class_set": {"cores": 3}}, **at(version))
    assert set(changed.json()["quota_class_set"]) == names
    for name in (INJECTED | NETWORKS) - names:
        assert operator_api.put(where, {"quota_class_set": {name: -1}}, **at(version)).status_code == 400
    taken = operator_api.put(where, {"quota_class_set": {"server_groups": 4}}, **at(version))
    assert taken.status_code == 200


@pytest.mark.parametrize(("version", "status"), [("2.1", 200), ("2.74", 200), ("2.75", 400), ("2.96", 400)])
def test_unknown_parameters_are_refused_from_2_75(path: str, operator_api: Api, version: str, status: int) -> None:
    for tail in ("", "/detail"):
        assert operator_api.get(f"{path}{tail}?colour=red", **at(version)).status_code == status
    assert operator_api.put(f"{path}?colour=red", {"quota_set": {}}, **at(version)).status_code == status
    assert operator_api.delete(f"{path}?colour=red", **at(version)).status_code == (202 if status == 200 else 400)
    assert operator_api.get(f"{path}/defaults?colour=red", **at(version)).status_code == 200
    assert operator_api.get(f"{V21}/limits?colour=red", **at(version)).status_code == status
    assert operator_api.get(f"{V21}/limits?reserved=1", **at(version)).status_code == 200


def test_limits_in_each_version(people: People) -> None:
    alice = Api(people.alice)
    shown = {
        version: alice.get(f"{V21}/limits", **at(version)).json()["limits"]["absolute"]
        for version in ("2.1", "2.36", "2.39", "2.57")
    }
    of_networks = ("maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules")
    assert [shown["2.1"][name] for name in of_networks] == [-1] * 3, "as Nova, which has none"
    set_limit(people.alice.project_id, "floatingips", 8)
    set_limit(None, "security_groups", 7)
    limits = alice.get(f"{V21}/limits", **at("2.35")).json()["limits"]["absolute"]
    assert [limits[name] for name in of_networks] == [8, 7, -1]
    assert (shown["2.1"]["maxPersonality"], shown["2.1"]["maxPersonalitySize"]) == (5, 10_240)
    assert set(shown["2.1"]) - set(shown["2.36"]) == {
        "maxTotalFloatingIps",
        "maxSecurityGroups",
        "maxSecurityGroupRules",
        "totalFloatingIpsUsed",
        "totalSecurityGroupsUsed",
    }
    assert set(shown["2.36"]) - set(shown["2.39"]) == {"maxImageMeta"}
    assert set(shown["2.39"]) - set(shown["2.57"]) == {"maxPersonality", "maxPersonalitySize"}


def test_a_launch_over_the_quota_of_ports_says_so(people: People) -> None:
    cloud = Cloud.make()
    set_limit(people.alice.project_id, "ports", 0)
    body = {"server": {"name": "web", "imageRef": str(cloud.image.id), "flavorRef": "1"}}
    answer = Api(people.alice).post(f"{V21}/servers", body)
    assert answer.status_code == 403
    message = "Quota exceeded for ports: Requested 1, but already used 0 of 0 ports (0 left)"
    assert answer.json()["forbidden"]["message"] == message
    body["server"]["networks"] = "none"
    assert Api(people.alice).post(f"{V21}/servers", body, **at("2.37")).status_code == 202
