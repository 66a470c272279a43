"""``/v3/OS-EP-FILTER``: groups of endpoints, those of single projects, and what the projects' catalogs show then."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.identity.models import Endpoint, EndpointGroup, ProjectEndpoint, ProjectEndpointGroup, Role
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.catalog import (
    create_endpoint,
    create_service,
    delete_endpoint,
    ensure_region,
    update_endpoint,
)
from provisioning.identity.services.projects import delete_project
from tests.identity.grants.conftest import V3, api_of
from tests.support.cast import Api, People, make_project, make_user
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
FILTER = f"{V3}/OS-EP-FILTER"
NOTHING = "0" * 32


class Filters:
    """What an operator does for alice's project, with a service that has an endpoint in each of two regions."""

    def __init__(self, people: People) -> None:
        self.api, self.people, self.project = Api(people.operator), people, people.alice.project
        self.service = create_service("rockets")
        self.north, self.south = (
            create_endpoint(self.service, "public", f"http://{name}", region=ensure_region(name))
            for name in ("north", "south")
        )
        self.at = f"{FILTER}/projects/{self.project.id.hex}"

    def group(self, **filters: Any) -> str:
        answer = self.api.post(f"{FILTER}/endpoint_groups", {"endpoint_group": {"name": "g", "filters": filters}})
        assert answer.status_code == 201, answer.content
        return str(answer.json()["endpoint_group"]["id"])

    def add(self, endpoint: Endpoint) -> None:
        assert self.api.put(f"{self.at}/endpoints/{endpoint.id.hex}").status_code == 204

    def add_group(self, group: str) -> None:
        path = f"{FILTER}/endpoint_groups/{group}/projects/{self.project.id.hex}"
        assert self.api.put(path).status_code == 204

    def shown(self) -> set[str]:
        """The addresses in the catalog of alice, who is in the project; the services without any, by their type."""
        catalog = Api(self.people.alice).get(f"{V3}/auth/catalog").json()["catalog"]
        return {each["url"] for entry in catalog for each in entry["endpoints"] or [{"url": entry["type"]}]}


@pytest.fixture
@standing
def filters(people: People) -> Filters:
    return Filters(people)


def ids_at(api: Api, path: str, name: str) -> list[str]:
    answer = api.get(path)
    assert answer.status_code == 200, answer.content
    return sorted(each["id"] for each in answer.json()[name])


def test_groups_are_made_listed_changed_and_deleted(filters: Filters) -> None:
    api = filters.api
    body = {"name": "northern", "filters": {"region_id": "north", "interface": "public"}, "description": "Cold."}
    group = api.post(f"{FILTER}/endpoint_groups", {"endpoint_group": body}).json()["endpoint_group"]
    path = f"{FILTER}/endpoint_groups/{group['id']}"
    assert group == body | {"id": group["id"], "links": {"self": f"http://127.0.0.1:8000{path}"}}
    filters.group(enabled=True)
    assert api.get(path).json()["endpoint_group"] == group
    assert ids_at(api, f"{FILTER}/endpoint_groups?name=northern", "endpoint_groups") == [group["id"]]
    listing = api.get(f"{FILTER}/endpoint_groups").json()
    assert [each["name"] for each in listing["endpoint_groups"]] == ["g", "northern"]
    assert listing["links"]["self"].endswith("/OS-EP-FILTER/endpoint_groups")
    changes = {"filters": {"service_id": filters.service.id.hex}, "description": None}
    changed = api.patch(path, {"endpoint_group": changes}).json()["endpoint_group"]
    assert changed == group | changes == api.get(path).json()["endpoint_group"]
    whole = {"name": "rockets", "filters": None, "description": None}  # as the standard client sends a new name
    api.patch(path, {"endpoint_group": {"description": "Fast."}})
    renamed = api.patch(path, {"endpoint_group": whole}).json()["endpoint_group"]
    assert renamed == changed | {"name": "rockets", "description": "Fast."}
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == api.delete(path).status_code == 404


@each_row(
    "wrong",
    [
        {"filters": {}},
        {"filters": {"colour": "red"}},
        {"filters": {"interface": "secret"}},
        {"filters": {"region_id": "\0"}},
        {"filters": {"enabled": "yes"}},
        {"filters": "public"},
        {"name": " "},
        {"name": "a\0"},
        {"name": "x" * 256},
        {"description": 1},
        {"colour": "red"},
        {},
    ],
)
def test_a_wrong_group_is_refused(filters: Filters, wrong: dict[str, Any]) -> None:
    body = {"name": "g", "filters": {"interface": "public"}, **wrong} if wrong else {"name": "g"}
    assert filters.api.post(f"{FILTER}/endpoint_groups", {"endpoint_group": body}).status_code == 400
    assert not EndpointGroup.objects.exists()
    path = f"{FILTER}/endpoint_groups/{filters.group(interface='public')}"
    assert filters.api.patch(path, {"endpoint_group": wrong}).status_code == (200 if wrong == {"filters": {}} else 400)


def test_a_group_has_the_endpoints_that_are_as_its_filters_say(filters: Filters) -> None:
    update_endpoint(filters.south, enabled=False)
    north, south = filters.north.id.hex, filters.south.id.hex
    own = {"service_id": str(filters.service.id)}
    for conditions, expected in [
        (own, {north, south}),
        (own | {"region_id": "north"}, {north}),
        (own | {"region_id": None}, set()),
        (own | {"interface": "admin"}, set()),
        (own | {"enabled": False}, {south}),
        ({"region_id": "south"}, {south}),
        ({"service_id": "x"}, set()),
    ]:
        group = filters.group(**conditions)
        assert set(ids_at(filters.api, f"{FILTER}/endpoint_groups/{group}/endpoints", "endpoints")) == expected


def test_a_project_with_endpoints_of_its_own_sees_no_others(filters: Filters) -> None:
    everything = filters.shown()
    assert {"http://north", "http://south"} < everything
    filters.add(filters.north)
    assert filters.shown() == {"http://north"}
    filters.add_group(filters.group(region_id="south"))
    assert filters.shown() == {"http://north", "http://south"}
    update_endpoint(filters.south, enabled=False)
    assert filters.shown() == {"http://north"}
    delete_endpoint(filters.north)
    assert filters.shown() == set()  # what was added is disabled
    delete_endpoint(filters.south)
    assert filters.shown() == everything - {"http://north", "http://south"} | {"rockets"}
    other = Api(filters.people.charlie).get(f"{V3}/auth/catalog").json()["catalog"]
    assert len(other) == 8


def test_tokens_of_a_domain_and_of_v2_follow(filters: Filters, people: People) -> None:
    filters.add(filters.north)
    grant(Role.objects.get(name="reader", domain=None), user=people.alice.user, domain=people.alice.user.domain)
    catalog = api_of(people.alice.user, people.alice.user.domain).get(f"{V3}/auth/catalog").json()["catalog"]
    assert {entry["type"] for entry in catalog} > {"identity", "compute", "rockets"}
    path = f"/identity/v2.0/tokens/{people.alice.token}"
    services = filters.api.get(path).json()["access"]["serviceCatalog"]
    assert [entry["type"] for entry in services] == ["rockets"]


def test_endpoints_of_a_project(filters: Filters) -> None:
    api, north = filters.api, filters.north.id.hex
    path, projects = f"{filters.at}/endpoints/{north}", f"{FILTER}/endpoints/{north}/projects"
    assert api.get(path).status_code == api.head(path).status_code == api.delete(path).status_code == 404
    filters.add(filters.north)
    assert api.get(path).status_code == api.head(path).status_code == 204
    assert api.put(path).status_code == 409
    assert ids_at(api, f"{filters.at}/endpoints", "endpoints") == [north]
    assert ids_at(api, projects, "projects") == [filters.project.id.hex]
    group = filters.group(service_id=filters.service.id.hex)
    filters.add_group(group)
    assert ids_at(api, f"{filters.at}/endpoints", "endpoints") == sorted([north, filters.south.id.hex])
    assert ids_at(api, f"{filters.at}/endpoint_groups", "endpoint_groups") == [group]
    assert api.delete(path).status_code == 204
    assert ids_at(api, projects, "projects") == []
    for wrong in (f"{filters.at}/endpoints/{NOTHING}", f"{FILTER}/projects/{NOTHING}/endpoints/{north}"):
        assert {api.get(wrong).status_code, api.put(wrong).status_code, api.delete(wrong).status_code} == {404}
    for kind in ("endpoints", "endpoint_groups"):
        assert api.get(f"{FILTER}/projects/{NOTHING}/{kind}").status_code == 404
    assert api.get(f"{FILTER}/endpoints/{NOTHING}/projects").status_code == 404


def test_groups_of_a_project(filters: Filters) -> None:
    api, group, project = filters.api, filters.group(interface="public"), filters.project.id.hex
    at = f"{FILTER}/endpoint_groups/{group}"
    path = f"{at}/projects/{project}"
    assert api.get(path).status_code == api.head(path).status_code == api.delete(path).status_code == 404
    filters.add_group(group)
    shown = api.get(path).json()["project_endpoint_group"]
    assert (shown["endpoint_group_id"], shown["project_id"]) == (group, project)
    assert api.head(path).status_code == 200
    assert api.put(path).status_code == 409
    assert ids_at(api, f"{at}/projects", "projects") == [project]
    assert api.delete(path).status_code == 204
    assert ids_at(api, f"{at}/projects", "projects") == []
    for wrong in (f"{at}/projects/{NOTHING}", f"{FILTER}/endpoint_groups/{NOTHING}/projects/{project}"):
        assert {api.get(wrong).status_code, api.put(wrong).status_code, api.delete(wrong).status_code} == {404}
    for kind in ("endpoints", "projects"):
        assert api.get(f"{FILTER}/endpoint_groups/{NOTHING}/{kind}").status_code == 404


def test_what_is_added_goes_with_what_it_is_of(filters: Filters) -> None:
    short = make_project("short")
    group = filters.group(interface="public")
    for project in (short, filters.project):
        filters.at = f"{FILTER}/projects/{project.id.hex}"
        filters.project = project
        filters.add(filters.north)
        filters.add_group(group)
    delete_project(short)
    assert (ProjectEndpoint.objects.count(), ProjectEndpointGroup.objects.count()) == (1, 1)
    delete_endpoint(filters.north)
    assert filters.api.delete(f"{FILTER}/endpoint_groups/{group}").status_code == 204
    assert not ProjectEndpoint.objects.exists()
    assert not ProjectEndpointGroup.objects.exists()


def test_readers_of_the_system_look_and_only_operators_change(filters: Filters) -> None:
    group = filters.group(interface="public")
    user = make_user("auditor")
    grant(Role.objects.get(name="reader", domain=None), user=user, system=True)
    system = api_of(user, "system")
    pair = f"{filters.at}/endpoints/{filters.north.id.hex}"
    both = f"{FILTER}/endpoint_groups/{group}/projects/{filters.project.id.hex}"
    filters.add_group(group)
    lists = [f"{filters.at}/endpoints", f"{filters.at}/endpoint_groups", f"{FILTER}/endpoint_groups"]
    lists += [f"{FILTER}/endpoint_groups/{group}{rest}" for rest in ("", "/endpoints", "/projects")]
    lists += [f"{FILTER}/endpoints/{filters.north.id.hex}/projects", both]
    for path in lists:
        assert (system.get(path).status_code, Api(filters.people.alice).get(path).status_code) == (200, 403)
    for api in (system, Api(filters.people.alice)):
        assert {api.put(path).status_code for path in (pair, both)} == {403}
        assert {api.delete(path).status_code for path in (pair, both, lists[3])} == {403}
        assert api.post(lists[2], {"endpoint_group": {"name": "g", "filters": {"enabled": True}}}).status_code == 403
        assert api.patch(lists[3], {"endpoint_group": {"name": "h"}}).status_code == 403
