"""Every declared resource of the Compute API comes back as it was sent, and is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import URLResolver

from portal.api.compute.base import MICROVERSIONS
from portal.api.compute.dialect import Resource
from portal.api.compute.proxies.base import ProxyView
from portal.api.compute.urls import ROUTES
from portal.api.frame.views import ListView
from tests.compute_api.conftest import NEWEST, V21
from tests.compute_api.test_keypairs import PUBLIC
from tests.support.cast import Api, People, Person
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
Row = tuple[Callable[[People], Person], dict[str, Any]]
ROWS: dict[str, Row] = {
    "keypair": (lambda people: people.alice, {"name": "mine", "public_key": PUBLIC}),
    "flavor": (lambda people: people.operator, {"name": "small", "ram": 512, "vcpus": 1, "disk": 1, "id": "7"}),
    "server_group": (lambda people: people.alice, {"name": "apart", "policy": "anti-affinity"}),
    "aggregate": (lambda people: people.operator, {"name": "rack", "availability_zone": "north"}),
}
"""Resource → a caller who may create it, and a body of the newest microversion."""
NOT_CREATED = {"service", "hypervisor", "extension"}
"""Hosts and workers report the first two; extensions are constant."""


def declared() -> dict[str, Resource]:
    (indexed,) = ROUTES
    assert isinstance(indexed, URLResolver)
    views: list[type[Any]] = [getattr(route.callback, "cls", object) for route in indexed.url_patterns]
    lists = [view for view in views if issubclass(view, ListView) and not issubclass(view, ProxyView)]
    return {view.resource.name: view.resource for view in lists}


def test_each_has_a_row() -> None:
    assert declared().keys() == ROWS.keys() | NOT_CREATED


@each_row("name", [*ROWS])
def test_it_comes_back_as_it_was_sent(people: People, name: str) -> None:
    person, body = ROWS[name]
    api, resource = Api(person(people), **NEWEST), declared()[name]
    path = f"{V21}/{resource.path}"
    answer = api.post(path, {resource.name: body | {"colour": "white"}})
    assert (answer.status_code, answer.json()["badRequest"]["message"].count("colour")) == (400, 1)
    answer = api.post(path, {resource.name: body})
    assert answer.status_code in {200, 201}, answer.content
    made = answer.json()[resource.name]
    assert {key: made[key] for key in body} == body
    own = f"{path}/{made[resource.key]}"
    shown = api.get(own).json()[resource.name]
    assert {key: shown[key] for key in made} == made
    for where in (path, f"{path}/detail") if resource.short else (path,):
        listed = [each.get(resource.name, each) for each in api.get(where).json()[resource.plural]]
        [entry] = [each for each in listed if each["name"] == body["name"]]
        assert {key: shown[key] for key in entry} == entry
    assert api.delete(own).status_code in {200, 202, 204}
    assert (api.get(own).status_code, api.delete(own).status_code) == (404, 404)


def test_a_microversion_has_each_attribute_once() -> None:
    for resource in declared().values():
        for minor in range(MICROVERSIONS.minimum[1], MICROVERSIONS.maximum[1] + 1):
            there = [each for each in resource.attributes if each.is_at((2, minor))]
            for names in ([a.name for a in there if a.shown], [a.name for a in there if a.post]):
                assert len(names) == len(set(names)), (resource.name, minor)
