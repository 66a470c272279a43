"""What stands in a namespace of metadata definitions: objects, properties, tags, and for which things it is meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.image.metadefs.defining import NAMESPACES, STRING, V2, define
from tests.support.cast import Api, Person
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
@standing
def path(operator: Person) -> str:
    return define(operator, visibility="public")


def names(answer: Any, plural: str) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [each["name"] for each in answer.json()[plural]]


def test_an_object_from_beginning_to_end(operator: Person, alice: Person, path: str) -> None:
    api, given = Api(operator), {"name": "size", "description": "d", "required": ["gib"], "properties": {"gib": STRING}}
    made = api.post(f"{path}/objects", given)
    assert (made.status_code, made.json() | given) == (201, made.json())
    assert made["Location"].endswith("/image/v2/metadefs/namespaces/Acme::Disk/objects/size")
    assert Api(alice).get(f"{path}/objects/size").json() == made.json()
    listed = Api(alice).get(f"{path}/objects").json()
    assert listed == {"objects": [made.json()], "schema": "v2/schemas/metadefs/objects"}
    changed = api.put(f"{path}/objects/size", {"name": "room"})
    assert (changed.status_code, changed.json()["name"]) == (200, "room")
    assert not {"description", "required", "properties"} & changed.json().keys()
    assert api.get(f"{path}/objects/size").status_code == 404
    assert (api.delete(f"{path}/objects/room").status_code, api.delete(f"{path}/objects/room").status_code) == (
        204,
        404,
    )


def test_a_property_from_beginning_to_end(operator: Person, alice: Person, path: str) -> None:
    api, given = Api(operator), {"name": "speed", "type": "integer", "title": "Speed", "minimum": 1}
    assert (made := api.post(f"{path}/properties", given)).status_code == 201
    assert made.json() == given == Api(alice).get(f"{path}/properties/speed").json()
    rest = {name: value for name, value in given.items() if name != "name"}
    assert Api(alice).get(f"{path}/properties").json() == {"properties": {"speed": rest}}
    changed = api.put(f"{path}/properties/speed", {"name": "pace", **STRING})
    assert (changed.status_code, changed.json()) == (200, {"name": "pace", **STRING})
    assert api.get(f"{path}/properties/speed").status_code == 404
    assert api.delete(f"{path}/properties/pace").status_code == 204
    assert api.get(f"{path}/properties").json() == {"properties": {}}


def test_a_property_by_the_name_that_it_has_on_a_thing(operator: Person, path: str) -> None:
    api = Api(operator)
    api.post(f"{path}/properties", {"name": "speed", **STRING})
    for thing in ({"name": "Image", "prefix": "acme_"}, {"name": "Bare"}):
        assert api.post(f"{path}/resource_types", thing).status_code == 201
    properties = f"{path}/properties"
    assert api.get(f"{properties}/acme_speed?resource_type=Image").json()["name"] == "speed"
    for wrong in ("speed?resource_type=Image", "speed?resource_type=Bare", "speed?resource_type=Nothing", "acme_speed"):
        assert api.get(f"{properties}/{wrong}").status_code == 404


def test_tags_from_beginning_to_end(operator: Person, alice: Person, path: str) -> None:
    api = Api(operator)
    made = api.post(f"{path}/tags/ssd")
    assert (made.status_code, set(made.json())) == (201, {"name", "created_at", "updated_at"})
    assert api.post(f"{path}/tags/SSD").status_code == 409, "capital letters make no difference"
    assert Api(alice).get(f"{path}/tags/Ssd").json()["name"] == "ssd"
    renamed = api.put(f"{path}/tags/ssd", {"name": "nvme"})
    assert (renamed.status_code, renamed.json()["name"]) == (200, "nvme")
    body = {"tags": [{"name": "a"}, {"name": "b"}]}
    assert api.post(f"{path}/tags", body, X_OpenStack_Append="True").status_code == 201
    assert set(names(api.get(f"{path}/tags"), "tags")) == {"nvme", "a", "b"}
    assert api.post(f"{path}/tags", body, X_OpenStack_Append="True").status_code == 409
    assert api.post(f"{path}/tags", {"tags": []}).json() == {"tags": []}
    assert len(names(api.get(f"{path}/tags"), "tags")) == 3, "none takes the place of none"
    assert api.post(f"{path}/tags", {"tags": [{"name": "c"}]}).json() == {"tags": [{"name": "c"}]}
    assert names(api.get(f"{path}/tags"), "tags") == ["c"]
    assert (api.delete(f"{path}/tags/C").status_code, api.delete(f"{path}/tags/c").status_code) == (204, 404)


def test_pages(operator: Person, path: str) -> None:
    api = Api(operator)
    for name in ("a", "b", "c"):
        assert api.post(f"{path}/tags/{name}").status_code == 201
        assert api.post(f"{path}/objects", {"name": name}).status_code == 201
    for plural in ("tags", "objects"):
        query = f"{path}/{plural}?sort_key=name&sort_dir=asc"
        assert names(api.get(f"{query}&limit=2"), plural) == ["a", "b"]
        assert names(api.get(f"{query}&limit=2&marker=b"), plural) == ["c"]
        assert names(api.get(f"{path}/{plural}"), plural) == ["c", "b", "a"], "the newest first"
        assert api.get(f"{query}&marker=x").status_code == 404
        for wrong in ("limit=x", "limit=-1", "sort_dir=up", "sort_key=colour", "visibility=x"):
            assert api.get(f"{path}/{plural}?{wrong}").status_code == 400
    assert names(api.get(f"{path}/tags?limit=0"), "tags") == []
    assert api.get(f"{path}/objects?limit=0").status_code == 400


def test_all_of_a_kind_are_deleted_at_once(operator: Person, path: str) -> None:
    api = Api(operator)
    api.post(f"{path}/objects", {"name": "o"})
    api.post(f"{path}/properties", {"name": "p", **STRING})
    api.post(f"{path}/tags/t")
    for plural in ("objects", "properties", "tags"):
        assert api.delete(f"{path}/{plural}").status_code == 204
        assert not api.get(f"{path}/{plural}").json()[plural]
    assert api.get(path).status_code == 200


def test_for_which_things_a_namespace_is_meant(operator: Person, alice: Person, path: str) -> None:
    api = Api(operator)
    given = {"name": "OS::Nova::Flavor", "prefix": "hw:", "properties_target": "x"}
    made = api.post(f"{path}/resource_types", given)
    assert (made.status_code, made.json() | given) == (201, made.json())
    assert api.post(f"{path}/resource_types", given).status_code == 409
    assert Api(alice).get(f"{path}/resource_types").json() == {"resource_type_associations": [made.json()]}
    define(operator, "Private", resource_type_associations=[{"name": "Secret"}])
    (known,) = Api(alice).get(f"{V2}/resource_types").json()["resource_types"]
    assert (known["name"], set(known)) == ("OS::Nova::Flavor", {"name", "created_at", "updated_at"})
    assert api.delete(f"{path}/resource_types/OS::Nova::Flavor").status_code == 204
    assert api.delete(f"{path}/resource_types/OS::Nova::Flavor").status_code == 404
    assert names(api.get(f"{V2}/resource_types"), "resource_types") == ["OS::Nova::Flavor", "Secret"], "it stays known"


@pytest.fixture
def filled(operator: Person, path: str) -> Api:
    """The operator, beside an object and a property that are named ``taken``."""
    api = Api(operator)
    api.post(f"{path}/objects", {"name": "taken"})
    api.post(f"{path}/properties", {"name": "taken", **STRING})
    return api


@pytest.mark.slow
@each_row(
    ("end", "body", "status"),
    [
        ("objects", {}, 400),
        ("objects", {"name": "taken"}, 409),
        ("objects", {"name": "x" * 81}, 400),
        ("objects", {"name": "x", "required": ["a", "a"]}, 400),
        ("objects", {"name": "x", "schema": "y"}, 403),
        ("properties", {"name": "taken", **STRING}, 409),
        ("properties", STRING, 400),
        ("properties", {"name": "x", "type": "string"}, 400),
        ("properties", {"name": "x", **STRING, "minLength": -1}, 400),
        ("properties", {"name": "x", **STRING, "items": {"enum": ["a"]}}, 400),
        ("properties", {"name": "x", **STRING, "updated_at": "now"}, 403),
        ("tags", {"tags": [{}]}, 400),
        ("tags", {"tags": [{"name": "x", "colour": "red"}]}, 400),
        ("tags", {"tags": [{"name": "x"}, {"name": "X"}]}, 409),
        ("tags", [], 400),
        (f"tags/{'x' * 81}", None, 400),
        ("resource_types", {"prefix": "x"}, 400),
        ("resource_types", {"name": "x", "prefix": "y" * 81}, 400),
        ("resource_types", {"name": "x", "created_at": "now"}, 403),
    ],
)
def test_what_is_wrong_is_refused(filled: Api, path: str, end: str, body: Any, status: int) -> None:
    api = filled
    before = api.get(path).json()
    assert api.post(f"{path}/{end}", body).status_code == status
    assert api.get(path).json() == before
    assert api.post(f"{NAMESPACES}/Nothing/{end}", body).status_code in {403, 404, 400}


def test_names_that_others_have(operator: Person, path: str) -> None:
    api = Api(operator)
    for name in ("a", "b"):
        api.post(f"{path}/objects", {"name": name})
        api.post(f"{path}/properties", {"name": name, **STRING})
        api.post(f"{path}/tags/{name}")
    assert api.put(f"{path}/objects/a", {"name": "b"}).status_code == 409
    assert api.put(f"{path}/properties/a", {"name": "b", **STRING}).status_code == 409
    assert api.put(f"{path}/tags/a", {"name": "B"}).status_code == 409
    assert api.put(f"{path}/tags/a", {"name": "A"}).status_code == 200
    assert api.put(f"{path}/objects/x", {"name": "y"}).status_code == 404


@pytest.mark.both_databases("locks")
def test_numbers_of_any_size_are_kept_and_shown(operator: Person, path: str) -> None:
    """PostgreSQL gives a large one back as a whole number, which the JSON library refused: 500, for the list, too."""
    body = {"name": "huge", "title": "T", "type": "number", "minimum": -1e30, "maximum": 1e300}
    assert Api(operator).post(f"{path}/properties", body).status_code == 201
    assert Api(operator).get(f"{path}/properties/huge").json() == body
    assert Api(operator).get(path).json()["properties"]["huge"]["maximum"] == 1e300
