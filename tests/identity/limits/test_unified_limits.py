"""``/v3/registered_limits`` and ``/v3/limits``: created several at once, found, changed and deleted; who sees which."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.identity.models import Limit, RegisteredLimit, Role
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.catalog import create_region, create_service, delete_region, delete_service
from provisioning.identity.services.domains import delete_domain, update_domain
from provisioning.identity.services.projects import delete_project
from provisioning.identity.services.tokens import issue_token
from tests.identity.directory.people_of_domains import V3, fault, make_realm, status
from tests.support.cast import Api, People, make_project, make_user
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NOWHERE = "0" * 32


class Limits:
    """What an operator does with limits of a service of its own, in the region ``north`` or in all."""

    def __init__(self, people: People) -> None:
        self.api, self.people = Api(people.operator), people
        self.service, self.region = create_service("rockets", name="rocket"), create_region("north")
        self.hers, self.other = people.alice.project, people.charlie.project

    def post(self, kind: str, *wanted: dict[str, Any]) -> Any:
        return self.api.post(f"{V3}/{kind}s", {f"{kind}s": [{"service_id": self.service.id.hex, **w} for w in wanted]})

    def made(self, kind: str, *wanted: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self.post(kind, *wanted)
        assert status(answer) == 201, answer.content
        result: list[dict[str, Any]] = answer.json()[f"{kind}s"]
        return result

    def register(self, *names: str, **fields: Any) -> list[dict[str, Any]]:
        requested = [{"resource_name": name, "default_limit": 10, **fields} for name in names]
        return self.made("registered_limit", *requested)

    def limit(self, name: str, **fields: Any) -> dict[str, Any]:
        return self.made("limit", {"resource_name": name, "resource_limit": 5, **fields})[0]


@pytest.fixture
@standing
def limits(people: People) -> Limits:
    return Limits(people)


def listed(api: Api, kind: str, query: str = "") -> list[str]:
    answer = api.get(f"{V3}/{kind}s?{query}")
    assert status(answer) == 200, answer.content
    return [each["resource_name"] for each in answer.json()[f"{kind}s"]]


@pytest.mark.both_databases("locks")
def test_limits_are_registered_several_at_once(limits: Limits) -> None:
    engines, tanks = limits.made(
        "registered_limit",
        {"resource_name": "engines", "default_limit": 3, "region_id": "north", "description": "Big ones."},
        {"resource_name": "tanks", "default_limit": -1},
    )
    path = f"{V3}/registered_limits/{engines['id']}"
    assert engines == {
        "id": engines["id"],
        "service_id": limits.service.id.hex,
        "region_id": "north",
        "resource_name": "engines",
        "default_limit": 3,
        "description": "Big ones.",
        "links": {"self": f"http://127.0.0.1:8000{path}"},
    }
    assert (tanks["region_id"], tanks["default_limit"], tanks["description"]) == (None, -1, None)
    assert limits.api.get(path).json()["registered_limit"] == engines
    changes = {"default_limit": 4, "region_id": None, "description": None}
    changed = limits.api.patch(path, {"registered_limit": changes}).json()["registered_limit"]
    assert changed == engines | changes == limits.api.get(path).json()["registered_limit"]
    assert status(limits.api.delete(path)) == 204
    assert status(limits.api.get(path)) == status(limits.api.delete(path)) == 404
    assert RegisteredLimit.objects.count() == 1


def test_a_resource_is_registered_once_in_a_region_and_once_for_all(limits: Limits) -> None:
    everywhere, _, _ = (*limits.register("engines", "tanks"), *limits.register("engines", region_id="north"))
    for region in (None, "north"):
        one = {"resource_name": "engines", "default_limit": 1, "region_id": region}
        assert status(limits.post("registered_limit", {"resource_name": "new", "default_limit": 1}, one)) == 409
    twice = {"resource_name": "wings", "default_limit": 1}
    assert status(limits.post("registered_limit", twice, twice)) == 409
    path = f"{V3}/registered_limits/{everywhere['id']}"
    for changes in ({"region_id": "north"}, {"resource_name": "tanks"}):
        assert status(limits.api.patch(path, {"registered_limit": changes})) == 409
    assert sorted(listed(limits.api, "registered_limit")) == ["engines", "engines", "tanks"]


@pytest.mark.both_databases("locks")
def test_limits_of_projects_and_domains(limits: Limits) -> None:
    limits.register("engines")
    mine = limits.limit("engines", project_id=limits.hers.id.hex, description="Hers.")
    path = f"{V3}/limits/{mine['id']}"
    assert mine == {
        "id": mine["id"],
        "service_id": limits.service.id.hex,
        "region_id": None,
        "resource_name": "engines",
        "project_id": limits.hers.id.hex,
        "domain_id": None,
        "resource_limit": 5,
        "description": "Hers.",
        "links": {"self": f"http://127.0.0.1:8000{path}"},
    }
    domain = limits.limit("engines", project_id="default")
    assert (domain["project_id"], domain["domain_id"]) == (None, "default")
    assert (
        status(limits.post("limit", {"resource_name": "engines", "resource_limit": 1, "domain_id": "default"})) == 409
    )
    again = {"resource_name": "engines", "resource_limit": 1, "project_id": limits.hers.id.hex}
    assert status(limits.post("limit", again | {"project_id": limits.other.id.hex}, again)) == 409
    changed = limits.api.patch(path, {"limit": {"resource_limit": 0, "description": None}}).json()["limit"]
    assert changed == mine | {"resource_limit": 0, "description": None} == limits.api.get(path).json()["limit"]
    assert status(limits.api.patch(path, {"limit": {"resource_name": "tanks"}})) == 400
    assert status(limits.api.delete(path)) == 204
    assert status(limits.api.get(path)) == 404
    assert Limit.objects.count() == 1


def test_a_limit_needs_a_registered_one_which_stays_as_long_as_it(limits: Limits) -> None:
    [registered] = limits.register("engines", region_id="north")
    for wrong in ({"resource_name": "tanks", "region_id": "north"}, {"resource_name": "engines"}):
        answer = limits.post("limit", {"resource_limit": 1, "project_id": limits.hers.id.hex, **wrong})
        assert fault(answer)[0] == 403
    made = limits.limit("engines", region_id="north", project_id=limits.hers.id.hex)
    path = f"{V3}/registered_limits/{registered['id']}"
    for changes in ({"resource_name": "tanks"}, {"region_id": None}, {"default_limit": 2}):
        assert status(limits.api.patch(path, {"registered_limit": changes})) == 403
    assert status(limits.api.delete(path)) == 403
    assert limits.api.get(path).json()["registered_limit"] == registered
    assert status(limits.api.delete(f"{V3}/limits/{made['id']}")) == 204
    assert status(limits.api.delete(path)) == 204


@each_row(
    "wrong",
    [
        {"service_id": NOWHERE},
        {"service_id": "rocket\0"},
        {"region_id": "south"},
        {"region_id": "\0"},
        {"resource_name": " "},
        {"resource_name": "x" * 256},
        {"number": -2},
        {"number": 2**31},
        {"number": "5"},
        {"number": True},
        {"description": "x" * 256},
        {"colour": "red"},
        {"project_id": NOWHERE},
        {"project_id": "\0"},
        {"project_id": None},
        {"domain_id": "default"},
        {"project_id": None, "domain_id": "nowhere"},
    ],
)
def test_a_wrong_limit_is_refused_and_nothing_of_the_request_is_kept(limits: Limits, wrong: dict[str, Any]) -> None:
    limits.register("engines")
    right: dict[str, Any] = {"resource_name": "engines", "number": 1, "project_id": limits.hers.id.hex}
    kinds = {"limit": "resource_limit"}
    if not {"project_id", "domain_id"} & wrong.keys():
        kinds["registered_limit"] = "default_limit"
    for kind, number in kinds.items():
        sent = []
        for one in ({**right, "project_id": limits.other.id.hex}, {**right, **wrong}):
            one[number] = one.pop("number")
            if kind == "registered_limit":
                one["resource_name"] = "new" if len(sent) == 0 else one["resource_name"]
                del one["project_id"]
            sent.append(one)
        assert status(limits.post(kind, *sent)) == 400
    assert (RegisteredLimit.objects.count(), Limit.objects.count()) == (1, 0)


def test_at_least_one_and_at_most_a_thousand_are_created_at_once(limits: Limits) -> None:
    for kind in ("limit", "registered_limit"):
        assert status(limits.api.post(f"{V3}/{kind}s", {f"{kind}s": []})) == 400
        assert status(limits.api.post(f"{V3}/{kind}s", {f"{kind}s": [{}] * 1001})) == 400
    assert len(limits.register(*(f"part {number}" for number in range(1000)))) == 1000
    page = limits.api.get(f"{V3}/registered_limits?limit=2&sort_key=resource_name&sort_dir=desc").json()
    assert [each["resource_name"] for each in page["registered_limits"]] == ["part 999", "part 998"]
    [after] = listed(
        limits.api, "registered_limit", page["links"]["next"].partition("?")[2].replace("limit=2", "limit=1")
    )
    assert after == "part 997"


def test_lists_are_narrowed(limits: Limits) -> None:
    limits.register("engines", "tanks")
    limits.register("wings", region_id="north")
    limits.limit("engines", project_id=limits.hers.id.hex)
    limits.limit("tanks", domain_id="default")
    limits.limit("wings", region_id="north", project_id=limits.other.id.hex)
    service = limits.service.id.hex
    for query, registered, own in [
        ("", ["engines", "tanks", "wings"], ["engines", "tanks", "wings"]),
        (f"service_id={service}", ["engines", "tanks", "wings"], ["engines", "tanks", "wings"]),
        (f"service_id={NOWHERE}", [], []),
        ("service_id=x", [], []),
        ("region_id=north", ["wings"], ["wings"]),
        ("resource_name=tanks", ["tanks"], ["tanks"]),
        ("resource_name__icontains=NG", ["engines", "wings"], ["engines", "wings"]),
        ("resource_name__startswith=w&region_id=north", ["wings"], ["wings"]),
    ]:
        assert (listed(limits.api, "registered_limit", query), listed(limits.api, "limit", query)) == (registered, own)
    assert listed(limits.api, "limit", f"project_id={limits.hers.id.hex}") == ["engines"]
    assert listed(limits.api, "limit", "domain_id=default") == ["tanks"]
    assert listed(limits.api, "limit", "sort_key=region_id&sort_key=resource_name&sort_dir=asc&sort_dir=desc") == [
        "wings",
        "tanks",
        "engines",
    ]
    assert status(limits.api.get(f"{V3}/limits?sort_key=colour")) == 400


@pytest.mark.slow
def test_everybody_sees_what_is_registered_and_the_limits_of_the_own_project(limits: Limits) -> None:
    realm = make_realm()
    [registered] = limits.register("engines")
    ids = {
        name: limits.limit("engines", **owner)["id"]
        for name, owner in {
            "hers": {"project_id": limits.hers.id.hex},
            "works": {"project_id": realm.project.id.hex},
            "other": {"domain_id": "other"},
        }.items()
    }
    seen: dict[str, tuple[Api, set[str]]] = {
        "bob": (Api(limits.people.bob), {"hers"}),
        "charlie": (Api(limits.people.charlie), set()),
        "dora": (realm.api, {"works", "other"}),
        "unscoped": (Api(None, **{"X-Auth-Token": issue_token(realm.erin, None, ("password",)).value}), set()),
        "system reader": (_on_the_system("reader"), {"hers", "works", "other"}),
        "operator": (limits.api, {"hers", "works", "other"}),
    }
    for api, expected in seen.values():
        result = {each["id"] for each in api.get(f"{V3}/limits").json()["limits"]}
        assert result == {ids[name] for name in expected}
        for name, key in ids.items():
            assert status(api.get(f"{V3}/limits/{key}")) == (200 if name in expected else 403)
        assert status(api.get(f"{V3}/registered_limits/{registered['id']}")) == 200
        assert api.get(f"{V3}/limits/model").json()["model"]["name"] == "flat"
    for api, code in ((Api(limits.people.alice), 403), (realm.api, 403), (limits.api, 404)):
        assert status(api.get(f"{V3}/limits/{NOWHERE}")) == status(api.get(f"{V3}/limits/no-id")) == code


def test_only_operators_change_limits(limits: Limits) -> None:
    realm, [registered] = make_realm(), limits.register("engines")
    made = limits.limit("engines", project_id=realm.project.id.hex)
    new = {"service_id": limits.service.id.hex, "resource_name": "engines"}
    for api in (realm.api, Api(limits.people.alice), _on_the_system("reader")):
        for kind, fields, record in (
            ("registered_limit", {"default_limit": 1}, registered),
            ("limit", {"resource_limit": 1, "domain_id": "other"}, made),
        ):
            path = f"{V3}/{kind}s"
            assert status(api.post(path, {f"{kind}s": [{**new, **fields}]})) == 403
            assert status(api.patch(f"{path}/{record['id']}", {kind: {}})) == 403
            assert status(api.delete(f"{path}/{record['id']}")) == 403


@pytest.mark.both_databases("locks")
def test_limits_go_with_what_they_are_of(limits: Limits) -> None:
    realm, project = make_realm(), make_project("short")
    limits.register("engines", "tanks")
    limits.register("engines", region_id="north")
    for name, owner in (("engines", project), ("tanks", realm.project), ("tanks", limits.hers)):
        limits.limit(name, project_id=owner.id.hex)
    limits.limit("engines", domain_id="other")
    limits.limit("engines", domain_id="default", region_id="north")
    delete_project(project)
    update_domain(realm.domain, enabled=False)
    delete_domain(realm.domain)
    assert set(Limit.objects.values_list("project", "domain")) == {(limits.hers.id, None), (None, "default")}
    delete_region(limits.region)
    assert set(RegisteredLimit.objects.values_list("resource_name", "region")) == {("engines", None), ("tanks", None)}
    assert set(Limit.objects.values_list("project", flat=True)) == {limits.hers.id}
    delete_service(limits.service)
    assert set(RegisteredLimit.objects.values_list("resource_name", flat=True)) == {"engines", "tanks"}


def _on_the_system(role: str) -> Api:
    user = make_user(f"system {role}")
    if not user.roleassignment_set.exists():
        grant(Role.objects.get(name=role, domain=None), user=user, system=True)
    return Api(None, **{"X-Auth-Token": issue_token(user, "system", ("password",)).value})
