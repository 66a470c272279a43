"""Namespaces of metadata definitions: made with all in them, seen by whom, changed and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from provisioning.identity.services.projects import delete_project
from provisioning.metadefs.models import (
    MetadefAssociation,
    MetadefNamespace,
    MetadefObject,
    MetadefProperty,
    MetadefTag,
)
from provisioning.metadefs.services import checks
from tests.image.metadefs.defining import FULL, NAMESPACES, STRING, V2, define, listed
from tests.support.cast import Api, People, Person, make_project
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
INSIDE = (MetadefAssociation, MetadefObject, MetadefProperty, MetadefTag)


def test_a_namespace_is_made_and_shown_with_all_in_it(operator: Person, alice: Person) -> None:
    answer = Api(operator).post(NAMESPACES, FULL)
    assert answer.status_code == 201, answer.content
    assert answer["Location"].endswith(f"{NAMESPACES}/Acme::Disk")
    made = answer.json()
    assert {name: made[name] for name in FULL} == FULL
    assert (made["protected"], made["owner"]) == (False, operator.project_id.hex)
    shown = Api(alice).get(f"{NAMESPACES}/Acme::Disk").json()
    assert shown["self"] == "/v2/metadefs/namespaces/Acme::Disk"
    assert shown["schema"] == "/v2/schemas/metadefs/namespace"
    assert shown["properties"] == FULL["properties"]
    assert {tag["name"] for tag in shown["tags"]} == {"ssd", "hdd"}
    (size,) = shown["objects"]
    assert (size["name"], size["required"], size["properties"]) == ("size", ["gib"], FULL["objects"][0]["properties"])
    assert size["self"] == "/v2/metadefs/namespaces/Acme::Disk/objects/size"
    volume, image = shown["resource_type_associations"]
    assert (image["name"], image["prefix"], "properties_target" in image) == ("OS::Glance::Image", "acme_", False)
    assert (volume["name"], volume["properties_target"]) == ("OS::Cinder::Volume", "image")


def test_properties_have_the_names_that_they_have_on_the_thing_asked_for(operator: Person) -> None:
    path = define(operator, **{name: FULL[name] for name in FULL if name != "namespace"})
    shown = Api(operator).get(f"{path}?resource_type=OS::Glance::Image").json()
    assert list(shown["properties"]) == ["acme_speed"]
    assert (list(shown["objects"][0]["properties"]), shown["objects"][0]["required"]) == (["acme_gib"], ["acme_gib"])
    assert list(Api(operator).get(f"{path}?resource_type=OS::Nova::Flavor").json()["properties"]) == ["speed"]


def test_what_is_not_specified_is_left_out(operator: Person) -> None:
    shown = Api(operator).get(define(operator)).json()
    assert set(shown) == {"namespace", "visibility", "protected", "owner", "created_at", "updated_at", "self", "schema"}
    assert (shown["visibility"], shown["protected"]) == ("private", False)


def test_who_sees_what(people: People) -> None:
    alice, charlie = people.alice, people.charlie
    define(people.operator, "Public", visibility="public")
    define(people.operator, "Ours", owner=alice.project_id.hex)
    define(people.operator, "Theirs")
    assert listed(people.operator) == ["Theirs", "Ours", "Public"]
    assert listed(alice) == listed(people.bob) == ["Ours", "Public"]
    assert listed(charlie) == ["Public"]
    paths = [f"{NAMESPACES}/{name}" for name in ("Public", "Ours", "Theirs")]
    assert [Api(alice).get(path).status_code for path in paths] == [200, 200, 404]
    assert [Api(charlie).get(path).status_code for path in paths] == [200, 404, 404]
    for inside in ("objects", "properties", "tags", "resource_types", "objects/x", "properties/x", "tags/x"):
        assert Api(charlie).get(f"{NAMESPACES}/Ours/{inside}").status_code == 404


def test_filters_orders_and_pages(operator: Person) -> None:
    define(operator, "A", visibility="public", resource_type_associations=[{"name": "X"}])
    define(operator, "B", resource_type_associations=[{"name": "Y"}, {"name": "X"}])
    define(operator, "C", visibility="public")
    assert listed(operator, "visibility=public") == ["C", "A"]
    assert listed(operator, "resource_types=X") == ["B", "A"]
    assert listed(operator, "resource_types=Y,Z") == ["B"]
    assert listed(operator, "resource_types=Z") == []
    assert listed(operator, "sort_key=namespace&sort_dir=asc") == ["A", "B", "C"]
    api, path, seen = Api(operator), "/v2/metadefs/namespaces?limit=2&sort_key=namespace", []
    for _ in range(2):
        body = api.get(f"/image{path}").json()
        seen += [each["namespace"] for each in body["namespaces"]]
        path = body.get("next", "")
    assert (seen, path) == (["C", "B", "A"], "")
    assert listed(operator, "limit=0") == []


@each_row(
    ("query", "status"),
    [
        ("visibility=shared", 400),
        ("sort_dir=up", 400),
        ("sort_key=colour", 400),
        ("sort_key=description;", 400),
        ("limit=-1", 400),
        ("limit=x", 400),
        ("marker=Nobody", 404),
        ("marker=%00", 400),
        ("resource_types=%00", 200),
    ],
)
def test_a_wrong_query(operator: Person, query: str, status: int) -> None:
    define(operator)
    assert Api(operator).get(f"{NAMESPACES}?{query}").status_code == status


@pytest.mark.slow
@each_row(
    ("body", "status"),
    [
        ({}, 400),
        ([], 400),
        ({"namespace": ""}, 400),
        ({"namespace": " "}, 400),
        ({"namespace": "x" * 81}, 400),
        ({"namespace": "x\n"}, 400),
        ({"namespace": "a/b"}, 400),
        ({"namespace": ".."}, 400),
        ({"namespace": 5}, 400),
        ({"namespace": "N", "colour": "red"}, 400),
        ({"namespace": "N", "visibility": "shared"}, 400),
        ({"namespace": "N", "protected": "yes"}, 400),
        ({"namespace": "N", "description": "x" * 501}, 400),
        ({"namespace": "N", "self": "/"}, 403),
        ({"namespace": "N", "created_at": "now"}, 403),
        ({"namespace": "N", "properties": {"p": {"type": "string"}}}, 400),
        ({"namespace": "N", "properties": {"p": {**STRING, "type": "text"}}}, 400),
        ({"namespace": "N", "properties": {"p": {**STRING, "colour": 1}}}, 400),
        ({"namespace": "N", "properties": {"p": {**STRING, "default": {}}}}, 400),
        ({"namespace": "N", "properties": {"p" * 81: STRING}}, 400),
        ({"namespace": "N", "properties": {"": STRING}}, 400),
        ({"namespace": "N", "objects": [{"description": "x"}]}, 400),
        ({"namespace": "N", "objects": [{"name": "o"}, {"name": "o"}]}, 409),
        ({"namespace": "N", "tags": [{"name": "t"}, {"name": "T"}]}, 409),
        ({"namespace": "N", "tags": ["t"]}, 400),
        ({"namespace": "N", "resource_type_associations": [{"name": "x"}, {"name": "x"}]}, 409),
        ({"namespace": "Taken"}, 409),
    ],
)
def test_a_wrong_namespace_leaves_nothing(operator: Person, body: Any, status: int) -> None:
    define(operator, "Taken")
    answer = Api(operator).post(NAMESPACES, body)
    assert (answer.status_code, set(answer.json())) == (status, {"code", "title", "message"})
    assert MetadefNamespace.objects.count() == 1
    assert not any(model._default_manager.exists() for model in INSIDE)


def test_defaults_and_choices_are_text(operator: Person) -> None:
    number = {"title": "N", "type": "integer", "default": 4, "enum": [2, 4], "minimum": 2}
    array = {"title": "A", "type": "array", "items": {"type": "integer", "enum": [1]}, "default": True}
    shown = Api(operator).get(define(operator, properties={"n": number, "a": array})).json()["properties"]
    assert shown["n"] == {**number, "default": "4", "enum": ["2", "4"]}
    assert shown["a"] == {**array, "default": "True", "items": {"type": "integer", "enum": ["1"]}}


def test_a_change_writes_all_its_own_attributes_anew(operator: Person, alice: Person) -> None:
    path = define(operator, display_name="Old", visibility="public", protected=True, tags=[{"name": "t"}])
    api = Api(operator)
    answer = api.put(path, {"namespace": "New", "description": "d"})
    assert answer.status_code == 200, answer.content
    shown = answer.json()
    assert (shown["namespace"], shown["visibility"], shown["protected"], shown["description"]) == (
        *("New", "private", False),
        "d",
    )
    assert "display_name" not in shown
    assert api.get(path).status_code == api.put(path, {"namespace": "X"}).status_code == 404
    assert api.get(f"{NAMESPACES}/New/tags").json() == {"tags": [{"name": "t"}]}
    define(operator, "Other")
    assert api.put(f"{NAMESPACES}/New", {"namespace": "Other"}).status_code == 409
    assert api.put(f"{NAMESPACES}/New", {"namespace": "New", "owner": alice.project_id.hex}).status_code == 200
    assert "New" in listed(alice)


def test_what_is_protected_stays(operator: Person) -> None:
    path = define(operator, **{name: FULL[name] for name in FULL if name != "namespace"}, protected=True)
    api, name = Api(operator), "OS::Glance::Image"
    for end in ("", "/objects", "/properties", "/tags", "/objects/size", "/properties/speed", "/tags/ssd"):
        assert api.delete(f"{path}{end}").status_code == 403
    assert api.delete(f"{path}/resource_types/{name}").status_code == 403
    assert api.put(path, {"namespace": "Acme::Disk"}).status_code == 200, "protected no longer"
    assert api.delete(path).status_code == 204
    assert api.delete(path).status_code == 404
    assert not any(model._default_manager.exists() for model in INSIDE)


def test_who_may_write(people: People) -> None:
    path = define(people.operator, visibility="public", owner=people.alice.project_id.hex)
    api = Api(people.alice)
    assert api.post(NAMESPACES, {"namespace": "Mine"}).status_code == 403
    assert api.put(path, {"namespace": "Acme::Disk"}).status_code == api.delete(path).status_code == 403
    assert api.post(f"{path}/tags/x").status_code == api.post(f"{path}/objects", {"name": "o"}).status_code == 403
    assert MetadefNamespace.objects.count() == 1


def test_a_policy_file_may_let_members_define(people: People, settings: Settings, tmp_path: Path) -> None:
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    settings.POLICY_FILE.write_text('"metadef_admin": "role:member"\n')
    alice, charlie = Api(people.alice), Api(people.charlie)
    assert alice.post(NAMESPACES, {"namespace": "Mine", "visibility": "public"}).status_code == 201
    assert alice.post(NAMESPACES, {"namespace": "M", "owner": people.charlie.project_id.hex}).status_code == 403
    assert charlie.post(f"{NAMESPACES}/Mine/tags/x").status_code == 403, "it is another project's"
    assert charlie.delete(f"{NAMESPACES}/Mine").status_code == 403
    assert alice.post(f"{NAMESPACES}/Mine/tags/x").status_code == 201
    assert alice.post(NAMESPACES, {"namespace": "Mine"}).status_code == 409
    assert charlie.post(NAMESPACES, {"namespace": "Mine"}).status_code == 409


def test_there_are_not_too_many(operator: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioning.metadefs.services.namespaces.MOST_NAMESPACES", 1)
    monkeypatch.setattr("provisioning.metadefs.services.contents.MOST", 2)
    monkeypatch.setattr("provisioning.metadefs.services.associations.MOST_TYPES", 1)
    api, path = Api(operator), define(operator)
    assert api.post(NAMESPACES, {"namespace": "Two"}).status_code == 413
    assert api.post(f"{path}/tags", {"tags": [{"name": str(number)} for number in range(3)]}).status_code == 413
    assert [api.post(f"{path}/resource_types", {"name": name}).status_code for name in ("a", "b")] == [201, 413]
    assert checks.MOST == 1000


def test_private_namespaces_go_with_their_project(operator: Person) -> None:
    project = make_project("short")
    define(operator, "Private", owner=project.id.hex, tags=[{"name": "t"}])
    define(operator, "Public", owner=project.id.hex, visibility="public")
    delete_project(project)
    assert listed(operator) == ["Public"]


@pytest.mark.slow
def test_lists_cost_the_same_whatever_their_length(operator: Person, alice: Person) -> None:
    counts = []
    for more in range(1, 8, 3):
        for number in range(more):
            define(operator, f"N{more}-{number}", visibility="public", resource_type_associations=[{"name": "X"}])
        with CaptureQueriesContext(connection) as queries:
            assert len(listed(alice)) >= more
        counts.append(len(queries))
    assert len(set(counts)) == 1


@each_row(
    ("name", "title"),
    [
        ("namespace", "namespace"),
        ("object", "object"),
        ("property", "property"),
        ("tag", "tag"),
        ("resource_type", "resource_type_association"),
    ],
)
def test_schemas(alice: Person, name: str, title: str) -> None:
    api, plural = Api(alice), {"property": "properties"}.get(name, f"{name}s")
    one, many = (api.get(f"/image/v2/schemas/metadefs/{each}").json() for each in (name, plural))
    assert (one["name"], one["additionalProperties"]) == (title, False)
    assert set(many) >= {"name", "properties", "links"}
    assert many["name"] in many["properties"]
    assert api.get("/image/v2/schemas/metadefs/nothing").status_code == 404
    assert V2 in NAMESPACES


@each_row(
    "end", ["%00", "%00/tags", "N/objects/%00", "N/tags/N%00", "N/properties/%00", "N/properties/p_%00?resource_type=T"]
)
def test_a_name_with_a_nul_is_that_of_nothing(operator: Person, alice: Person, end: str) -> None:
    define(operator, "N", visibility="public", resource_type_associations=[{"name": "T", "prefix": "p_"}])
    assert Api(alice).get(f"{NAMESPACES}/{end}").status_code == 404
    assert Api(operator).delete(f"{NAMESPACES}/N/resource_types/%00").status_code == 404
