"""Additional properties that only some roles may touch."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace as other
from pathlib import Path

import pytest
from pytest_django import Settings

from provisioning.images import services
from provisioning.images.records import protections
from tests.image.asking import V2, add, names, patch, remove, replace
from tests.image.conftest import MakeImage
from tests.support.cast import Api, People, Person

RULES = """
["^price"]
create = ["admin"]
read = ["admin", "Member"]
update = ["admin"]
delete = ["!"]

["^secret"]
create = ["admin", "member"]
read = ["admin"]
update = ["admin"]
delete = ["admin"]

["^free"]
create = ["@"]
read = ["@"]
update = ["@"]
delete = ["@"]
"""


@pytest.fixture
def rules(settings: Settings, tmp_path: Path) -> Path:
    path = tmp_path / "protections.toml"
    path.write_text(RULES)
    settings.IMAGE_PROPERTY_PROTECTIONS = str(path)
    return path


def shown(person: Person, image: object) -> dict[str, str]:
    body = Api(person).get(f"{V2}/images/{image}").json()
    return {name: value for name, value in body.items() if name.startswith(("price", "secret", "free", "else"))}


@pytest.mark.slow
def test_roles_say_who_sees_and_changes_what(people: People, make: MakeImage, rules: Path) -> None:
    alice, bob, operator = people.alice, people.bob, people.operator
    image = make(properties={"free": "1", "secret_a": "mine"}).id
    assert shown(alice, image) == {"free": "1"}
    assert patch(operator, image, add("/price", "5"), add("/secret_b", "x")).status_code == 200
    assert shown(operator, image) == {"free": "1", "price": "5", "secret_a": "mine", "secret_b": "x"}
    assert shown(alice, image) == {"free": "1", "price": "5"}
    assert shown(bob, image) == {"free": "1"}
    for change in (
        replace("/price", "0"),
        remove("/price"),
        add("/price_too", "0"),
        add("/elsewhere", "x"),
        add("/secret_a", "overwritten"),
    ):
        answer = patch(alice, image, replace("/free", "2"), change)
        assert answer.status_code == 403
        assert answer.json()["message"] == f"Attribute '{change['path'][1:]}' is reserved."
    for change in (replace("/secret_a", "x"), remove("/secret_a")):
        assert patch(alice, image, change).status_code == 409
    assert patch(operator, image, remove("/price")).status_code == 403
    assert patch(alice, image, replace("/free", "2"), add("/secret_c", "x")).status_code == 200
    assert shown(operator, image) == {"free": "2", "price": "5", "secret_a": "mine", "secret_b": "x", "secret_c": "x"}
    assert patch(operator, image, replace("/price", "6"), remove("/secret_b")).status_code == 200


def test_creating(people: People, rules: Path) -> None:
    for name, status in (("free", 201), ("secret", 201), ("price", 403), ("other", 403)):
        assert Api(people.alice).post(f"{V2}/images", {name: "x"}).status_code == status
    assert Api(people.operator).post(f"{V2}/images", {"price": "x"}).status_code == 201
    assert Api(people.operator).post(f"{V2}/images", {"other": "x"}).status_code == 403


def test_filters_do_not_tell_what_is_hidden(people: People, make: MakeImage, rules: Path) -> None:
    make(properties={"secret": "x", "free": "1"})
    assert names(people.alice, "free=1") == ["picture"]
    assert names(people.alice, "secret=x") == names(people.alice, "free=1&secret=x") == []
    assert names(people.operator, "secret=x") == ["picture"]


def test_the_file_is_followed(people: People, make: MakeImage, rules: Path) -> None:
    image = make(properties={"free": "1"}).id
    assert shown(people.alice, image) == {"free": "1"}
    rules.write_text(RULES.replace("^free", "^other"))
    assert shown(people.alice, image) == {}
    rules.write_text(RULES.replace("^other", "^free"))
    assert shown(people.alice, image) == {"free": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "x = 1",
        '["("]\ncreate = ["@"]\nread = ["@"]\nupdate = ["@"]\ndelete = ["@"]',
        '[".*"]\ncreate = ["@"]\nread = ["@"]\nupdate = ["@"]',
        '[".*"]\ncreate = ["@"]\nread = ["@"]\nupdate = ["@"]\ndelete = ["@"]\nwrite = ["@"]',
        '[".*"]\ncreate = ["@"]\nread = ["@", "!"]\nupdate = ["@"]\ndelete = ["@"]',
        '[".*"]\ncreate = "@"\nread = ["@"]\nupdate = ["@"]\ndelete = ["@"]',
        '[".*"]\ncreate = [1]\nread = ["@"]\nupdate = ["@"]\ndelete = ["@"]',
        "#" * (300 << 10),
        None,
    ],
)
def test_a_broken_file_closes_everything(
    people: People, make: MakeImage, rules: Path, caplog: pytest.LogCaptureFixture, text: str | None
) -> None:
    image = make(properties={"free": "1"}).id
    rules.unlink()
    if text is not None:
        rules.write_text(text)
        os.utime(rules, (1, 1))
    with caplog.at_level(logging.ERROR):
        assert shown(people.alice, image) == shown(people.operator, image) == {}
        assert patch(people.operator, image, add("/free", "2")).status_code == 403
        assert patch(people.alice, image, replace("/name", "still")).status_code == 200
    assert len([record for record in caplog.records if "property protections" in record.getMessage()]) == 1
    rules.write_text(RULES)
    assert shown(people.alice, image) == {"free": "1"}


def test_json_and_the_first_pattern_that_matches(people: People, settings: Settings, tmp_path: Path) -> None:
    everybody, nobody = ({name: [who] for name in protections.OPERATIONS} for who in ("@", "!"))
    path = tmp_path / "protections.json"
    path.write_text(json.dumps({"^a": nobody, "b$": everybody, ".*": everybody}))
    settings.IMAGE_PROPERTY_PROTECTIONS = str(path)
    context = people.alice.context
    assert protections.readable(context, {"ab": "1", "b": "1", "c": "1"}) == {"b": "1", "c": "1"}
    assert not protections.allows(people.operator.context, "ab", "read")


def test_without_a_file_nothing_is_protected(alice: Person, make: MakeImage) -> None:
    assert protections.readable(alice.context, {"x": "1"}) == {"x": "1"}


def test_the_cloud_itself_is_not_bound(alice: Person, make: MakeImage, rules: Path) -> None:
    cloud = other(alice.context, user_id=None)
    assert services.create(cloud, properties={"other": "x"}).properties == {"other": "x"}
    assert protections.readable(cloud, {"other": "x"}) == {"other": "x"}
