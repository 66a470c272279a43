"""Every declared resource of the Identity API comes back as it was sent, keeps its own values, and can be deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import URLResolver

from portal.api.frame.views import DetailView
from portal.api.identity.dialect.resource import Resource
from portal.api.identity.urls import urlpatterns
from provisioning.identity.services.catalog import create_service
from provisioning.identity.services.unified_limits import create_registered_limits
from tests.support.cast import Api, People, Person
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
V3 = "/identity/v3"
Row = tuple[Callable[[People], Person], str, dict[str, Any]]


def _operator(people: People) -> Person:
    return people.operator


def _alice(people: People) -> Person:
    return people.alice


ROWS: dict[str, Row] = {
    "region": (_operator, "regions", {"description": "north"}),
    "service": (_operator, "services", {"type": "dns", "name": "names"}),
    "endpoint": (_operator, "endpoints", {"service_id": "{service}", "interface": "public", "url": "http://names/"}),
    "endpoint_group": (_operator, "OS-EP-FILTER/endpoint_groups", {"name": "all", "filters": {"interface": "public"}}),
    "policy": (_operator, "policies", {"type": "text/plain", "blob": "{}"}),
    "registered_limit": (
        _operator,
        "registered_limits",
        {"service_id": "{service}", "resource_name": "keys", "default_limit": 5},
    ),
    "limit": (
        _operator,
        "limits",
        {"service_id": "{service}", "resource_name": "zones", "resource_limit": 7, "project_id": "{project}"},
    ),
    "credential": (_alice, "credentials", {"type": "cert", "blob": "text"}),
    "application_credential": (
        _alice,
        "users/{user}/application_credentials",
        {"name": "program", "access_rules": [{"service": "image", "method": "GET", "path": "/v2/images"}]},
    ),
    "domain": (_operator, "domains", {"name": "other", "enabled": False, "tags": ["a"], "options": {}}),
    "project": (_operator, "projects", {"name": "other", "description": "second", "tags": ["b", "a"]}),
    "user": (_operator, "users", {"name": "dora", "email": "dora@example.org", "default_project_id": "{project}"}),
    "group": (_operator, "groups", {"name": "writers", "description": "They write."}),
    "role": (_operator, "roles", {"name": "caretaker", "description": "Takes care."}),
    "trust": (
        _alice,
        "OS-TRUST/trusts?trustor_user_id={user}",
        {
            "trustor_user_id": "{user}",
            "trustee_user_id": "{bob}",
            "project_id": "{project}",
            "impersonation": False,
            "roles": [{"name": "reader"}],
        },
    ),
}
"""Resource → a caller who may create it, the path of its list, and a body, with ids by name."""
NOT_CREATED = {"access_rule"}
"""Created with application credentials."""


def declared() -> dict[str, Resource]:
    (indexed,) = urlpatterns
    assert isinstance(indexed, URLResolver)
    views = [getattr(route.callback, "cls", object) for route in indexed.url_patterns]
    return {view.resource.name: view.resource for view in views if issubclass(view, DetailView)}


def test_each_has_a_row() -> None:
    assert declared().keys() == ROWS.keys() | NOT_CREATED


@pytest.fixture
def ids(people: People) -> dict[str, str]:
    service = create_service("dns").id.hex
    create_registered_limits([{"service_id": service, "resource_name": "zones", "default_limit": 1}])
    alice, bob = people.alice, people.bob
    return {"service": service, "project": alice.project_id.hex, "user": alice.user_id.hex, "bob": bob.user_id.hex}


def _create(api: Api, resource: Resource, path: str, body: dict[str, Any]) -> dict[str, Any]:
    several = resource.name in {"limit", "registered_limit"}
    answer = api.post(path, {resource.plural: [body]} if several else {resource.name: body})
    assert answer.status_code == 201, answer.content
    made: dict[str, Any] = answer.json()[resource.plural][0] if several else answer.json()[resource.name]
    made.pop("secret", None)
    return made


@each_row("name", [*ROWS])
def test_it_comes_back_as_it_was_sent(people: People, ids: dict[str, str], name: str) -> None:
    person, path, body = ROWS[name]
    api, resource, path = Api(person(people)), declared()[name], f"{V3}/{path}".format(**ids)
    body = {key: ids.get(value[1:-1], value) if isinstance(value, str) else value for key, value in body.items()}
    made = _create(api, resource, path, body | ({"colour": "white"} if resource.extra else {}))
    hidden = {each.name for each in resource.attributes if not each.shown}
    shown = {key: made[key] for key in body if key not in {"roles", "access_rules", "tags", *hidden}}
    assert shown == {key: body[key] for key in shown}
    assert ("colour" in made) == bool(resource.extra)
    own = V3 + made["links"]["self"].partition("/v3")[2]
    assert api.get(own).json() == {resource.name: made}
    listed = api.get(path).json()
    assert made["id"] in [each["id"] for each in listed[resource.plural]]
    assert listed["links"]["self"].endswith(path)
    if resource.update is not None:
        repeated = {
            each.name: made[each.name] for each in resource.attributes if (each.put or each.fixed) and each.name in made
        }
        assert api.patch(own, {resource.name: repeated}).json() == {resource.name: made}
        for each in resource.attributes:
            if each.fixed:
                other = not made[each.name] if isinstance(made[each.name], bool) else "f" * 32
                assert api.patch(own, {resource.name: {each.name: other}}).status_code in {400, 403}, each.name
        answer = api.patch(own, {resource.name: repeated | {"shape": "round"}})
        assert answer.status_code == (200 if resource.extra else 400)
        if resource.extra:
            assert answer.json() == {resource.name: made | {"shape": "round"}}
    assert api.delete(own).status_code == 204
    assert (api.get(own).status_code, api.delete(own).status_code) == (404, 404)
    assert made["id"] not in [each["id"] for each in api.get(path).json()[resource.plural]]
