"""JSON patches, in both forms, with every refusal of the reference."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.api.image.images.schemas import PATCHES, read_patch
from provisioning.common.context import system_context
from provisioning.common.errors import ConflictError, ForbiddenError, NovellaError
from provisioning.images.models import Image
from provisioning.images.records.changes import Change, apply
from tests.image import pictures
from tests.image.asking import OLD_PATCH_TYPE, PATCH_TYPE, V2, add, patch, remove, replace
from tests.image.conftest import MakeImage
from tests.support.cast import Api, People, Person
from tests.support.tables import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
POINTERS = st.sampled_from(
    ["/name", "/a", "/a~1b", "/a~0b", "/tags", "/tags/-", "/locations", "/locations/-", "/", "", "/a//b", "//a", "/~2"]
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "replace", "remove", "move", None]) | JSON,
        "path": POINTERS | JSON,
        "add": POINTERS | JSON,
        "replace": POINTERS | JSON,
        "value": JSON,
    },
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(body=st.lists(ENTRIES | JSON, max_size=4) | JSON, old=st.booleans())
def test_any_body_is_read_or_refused(body: Any, old: bool) -> None:
    try:
        changes = read_patch(body, old=old)
    except NovellaError:
        return
    assert all(isinstance(change, Change) for change in changes)
    assert len(changes) == len(body)


PROPERTY = st.sampled_from(["a", "b", "c"])
CHANGES = st.lists(
    st.builds(
        Change,
        operation=st.sampled_from(["add", "replace", "remove"]),
        name=PROPERTY,
        value=st.text(max_size=3),
        only_new=st.booleans(),
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(before=st.dictionaries(PROPERTY, st.text(max_size=3)), changes=CHANGES)
def test_properties_follow_the_operations_in_order(before: dict[str, str], changes: list[Change]) -> None:
    model = dict(before)
    refused = False
    for change in changes:
        there = change.name in model
        if (change.operation == "add" and there and change.only_new) or (change.operation != "add" and not there):
            refused = True
            break
        if change.operation == "remove":
            del model[change.name]
        else:
            model[change.name] = change.value
    image = Image(properties=before)
    if refused:
        with pytest.raises(ConflictError):
            apply(system_context(), image, changes)
    else:
        assert apply(system_context(), image, changes).get("properties", before) == model
    assert image.properties == before


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.text(max_size=4), min_size=1, max_size=4))
def test_the_last_value_of_an_attribute_counts(values: list[str]) -> None:
    changes = [Change("replace", "name", value) for value in values]
    assert apply(system_context(), Image(), changes) == {"name": values[-1]}
    with pytest.raises(ForbiddenError):
        apply(system_context(), Image(), [*changes, Change("remove", "name")])


@pytest.fixture
def image(make: MakeImage) -> Image:
    return make(data=pictures.raw(512), properties={"there": "1"})


@pytest.mark.slow
@each_row(
    ("operation", "status", "words"),
    [
        (replace("/id", str(uuid.UUID(int=1))), 403, "Attribute 'id' is read-only."),
        (replace("/size", 1), 403, "Attribute 'size' is read-only."),
        (remove("/status"), 403, "Attribute 'status' is read-only."),
        (add("/os_hash_value", "x"), 403, "Attribute 'os_hash_value' is read-only."),
        (add("/stores", "x"), 403, "Attribute 'stores' is read-only."),
        (add("/deleted_at", "x"), 403, "Attribute 'deleted_at' is reserved."),
        (add("/os_glance_import_task", "x"), 403, "Attribute 'os_glance_import_task' is reserved."),
        (remove("/visibility"), 403, "Property visibility may not be removed."),
        (remove("/tags"), 403, "Property tags may not be removed."),
        (replace("/none", "x"), 409, "Property none does not exist."),
        (remove("/none"), 409, "Property none does not exist."),
        (replace("/locations", []), 403, "It's not allowed to update locations if locations are invisible."),
        (add("/locations/-", {}), 403, "It's not allowed to add locations if locations are invisible."),
        (remove("/locations/0"), 403, "It's not allowed to remove locations if locations are invisible."),
        (add("/locations", []), 400, "Invalid JSON pointer for this resource: '/locations'"),
        (add("/tags/-", "x"), 400, "Invalid JSON pointer for this resource: '/tags/-'"),
        (add("/a/b", "x"), 400, "Invalid JSON pointer for this resource: '/a/b'"),
        (add("a", "x"), 400, 'Pointer `a` does not start with "/".'),
        (add("/a//b", "x"), 400, 'Pointer `/a//b` contains adjacent "/".'),
        (add("/a/", "x"), 400, 'Pointer `/a/` end with "/".'),
        (add("/", "x"), 400, "Pointer `/` does not contains valid token."),
        (add("/a~2", "x"), 400, 'Pointer `/a~2` contains "~" not part of a recognized escape sequence.'),
        (add("/a~", "x"), 400, 'Pointer `/a~` contains "~" not part of a recognized escape sequence.'),
        ({"op": "add", "path": "/a"}, 400, 'Operation "add" requires a member named "value".'),
        ({"op": "replace", "path": "/name"}, 400, 'Operation "replace" requires a member named "value".'),
        ({"op": "add", "value": "x"}, 400, "Unable to find 'path' in JSON Schema change"),
        ({"path": "/a", "value": "x"}, 400, "Unable to find `op` in JSON Schema change."),
        ({"op": "move", "path": "/a", "from": "/b"}, 400, "Invalid operation: `move`."),
        ({"replace": "/name", "value": "x"}, 400, "Unable to find `op` in JSON Schema change."),
        ("add", 400, "Operations must be JSON objects."),
        (replace("/protected", "yes"), 400, "boolean"),
        (replace("/min_disk", -1), 400, "-1"),
        (replace("/tags", ["x" * 256]), 400, "255"),
        (replace("/visibility", "secret"), 400, "secret"),
        (replace("/name", "x" * 256), 400, "255"),
        (add("/n", None), 400, "not text"),
        (add(f"/{'n' * 256}", "x"), 400, "255 characters"),
        (replace("/tags", [str(number) for number in range(129)]), 413, "Attempted: 129, Maximum: 128"),
    ],
)
def test_refusals(alice: Person, image: Image, operation: Any, status: int, words: str) -> None:
    before = Api(alice).get(f"{V2}/images/{image.id}").json()
    answer = patch(alice, image.id, replace("/name", "changed"), operation)
    assert answer.status_code == status, answer.content
    assert words in answer.json()["message"]
    assert Api(alice).get(f"{V2}/images/{image.id}").json() == before


def test_too_many_properties(alice: Person, make: MakeImage) -> None:
    image = make(properties={f"p{number}": "x" for number in range(127)})
    assert patch(alice, image.id, add("/one", "x")).status_code == 200
    assert patch(alice, image.id, add("/more", "x")).status_code == 413
    assert patch(alice, image.id, remove("/one"), add("/more", "x")).status_code == 200


def test_names_of_properties_are_free(alice: Person, make: MakeImage) -> None:
    image = make()
    odd = {"a/b": "slash", "m~n": "tilde", "two words": "x", "hidden": "x", "properties": "x", "\N{SNOWMAN}": "x"}
    changes = [add("/" + name.replace("~", "~0").replace("/", "~1"), value) for name, value in odd.items()]
    shown = patch(alice, image.id, *changes).json()
    assert {name: shown[name] for name in odd} == odd
    assert shown["os_hidden"] is False
    answer = Api(alice).post(f"{V2}/images", {"name": "as odd", **odd})
    assert answer.status_code == 201
    assert {name: answer.json()[name] for name in odd} == odd


def test_the_older_form(alice: Person, make: MakeImage) -> None:
    image = make(properties={"there": "1"})

    def old(*operations: dict[str, Any]) -> Any:
        return patch(alice, image.id, *operations, content_type=OLD_PATCH_TYPE)

    assert old({"add": "/new", "value": "1"}, {"replace": "/there", "value": "2"}).json()["there"] == "2"
    assert old({"remove": "/new"}).status_code == 200
    for operation, status in (
        ({"add": "/there", "value": "1"}, 409),
        ({"add": "/name", "value": "1"}, 409),
        ({"replace": "/none", "value": "1"}, 409),
        ({"remove": "/none"}, 409),
        ({"add": "/a", "remove": "/b", "value": "1"}, 400),
        ({"op": "add", "path": "/a", "value": "1"}, 400),
        ({"add": "/a"}, 400),
        ({"add": 5, "value": "1"}, 400),
        ({"replace": "/status", "value": "active"}, 403),
    ):
        assert old(operation).status_code == status, operation


@pytest.mark.parametrize("kind", ["application/json", "application/json-patch+json", "text/plain"])
def test_other_types_of_body(alice: Person, make: MakeImage, kind: str) -> None:
    answer = patch(alice, make().id, replace("/name", "x"), content_type=kind)
    assert answer.status_code == 415
    assert answer["Accept-Patch"] == PATCHES
    assert PATCH_TYPE in answer.json()["message"]


def test_formats_until_there_is_data(alice: Person, make: MakeImage) -> None:
    queued, active = make(), make(data=pictures.raw(512))
    assert patch(alice, queued.id, replace("/disk_format", "qcow2")).status_code == 200
    refused = patch(alice, active.id, replace("/disk_format", "qcow2"))
    assert refused.status_code == 403
    assert refused.json()["message"] == "Attribute disk_format can be only replaced for a queued image."
    assert patch(alice, active.id, replace("/disk_format", "raw")).status_code == 200


def test_an_empty_patch_shows_the_image(alice: Person, make: MakeImage) -> None:
    image = make()
    before = Image.objects.get(pk=image.pk)
    answer = patch(alice, image.id)
    assert (answer.status_code, answer.json()["id"]) == (200, str(image.id))
    image.refresh_from_db()
    assert image.updated_at == before.updated_at


def test_owners(people: People, make: MakeImage) -> None:
    alice, charlie, operator = people.alice, people.charlie, people.operator
    image = make()
    given = replace("/owner", charlie.project_id.hex)
    refused = patch(alice, image.id, given)
    assert (refused.status_code, refused.json()["message"]) == (403, "Owner can't be updated by non admin.")
    assert patch(alice, image.id, replace("/owner", alice.project_id.hex)).status_code == 200
    for nonsense in ("x", None, 5):
        assert patch(operator, image.id, replace("/owner", nonsense)).status_code == 400
    stranger = uuid.uuid4().hex
    assert patch(operator, image.id, replace("/owner", stranger)).json()["owner"] == stranger
    assert Api(alice).get(f"{V2}/images/{image.id}").status_code == 404
    assert patch(operator, image.id, given).json()["owner"] == charlie.project_id.hex
    assert Api(alice).get(f"{V2}/images/{image.id}").status_code == 404
    assert patch(charlie, image.id, replace("/name", "mine")).status_code == 200

    mine = {"name": "x", "owner": alice.project_id.hex}
    assert Api(alice).post(f"{V2}/images", mine).status_code == 201
    assert Api(charlie).post(f"{V2}/images", mine).status_code == 403
    assert Api(operator).post(f"{V2}/images", mine).json()["owner"] == alice.project_id.hex
