"""Where the data of an image lies: shown to operators, and taken from nobody."""

from __future__ import annotations

import uuid

import pytest
from pytest_django import Settings

from tests.image import pictures
from tests.image.asking import V2, add, patch, remove, replace
from tests.image.conftest import MakeImage
from tests.support.cast import Api, People

pytestmark = pytest.mark.django_db


def test_operators_see_where_the_data_lies(people: People, make: MakeImage, settings: Settings) -> None:
    image, queued = make(data=pictures.raw()), make()
    path = f"{V2}/images/{image.id}/locations"
    assert [Api(person).get(path).status_code for person in (people.alice, people.bob, people.charlie)] == [403] * 3
    (shown,) = Api(people.operator).get(path).json()
    assert shown == {"url": f"file://{settings.IMAGE_DIR}/{image.id}", "metadata": {"store": "local"}}
    assert Api(people.operator).get(f"{V2}/images/{queued.id}/locations").json() == []
    assert Api(people.operator).get(f"{V2}/images/{uuid.uuid4()}/locations").status_code == 404


def test_no_location_is_taken(people: People, make: MakeImage) -> None:
    image, active = make(), make(data=pictures.raw())
    path, body = f"{V2}/images/{image.id}/locations", {"url": "http://example.org/disk"}
    for person, status in ((people.alice, 403), (people.operator, 403), (people.bob, 403), (people.charlie, 404)):
        assert Api(person).post(path, body).status_code == status
    assert Api(people.alice).post(f"{V2}/images/{active.id}/locations", body).status_code == 409
    for wrong in ({}, {"url": 5}, {**body, "validation_data": {"os_hash_algo": "md5"}}):
        assert Api(people.alice).post(path, wrong).status_code == 400
    url = {"url": "file:///etc/passwd", "metadata": {}}
    for change in (add("/locations/-", url), replace("/locations", [url]), remove("/locations/0")):
        assert patch(people.operator, image.id, change).status_code == 403


def test_images_do_not_show_where_their_data_lies(people: People, make: MakeImage) -> None:
    image = make(data=pictures.raw())
    for person in (people.alice, people.operator):
        assert not {"locations", "direct_url"} & Api(person).get(f"{V2}/images/{image.id}").json().keys()


def test_an_empty_id_is_that_of_nothing(people: People) -> None:
    api = Api(people.operator)
    assert [api.get(f"{V2}/images{end}").status_code for end in ("", "/", "//", "//file")] == [200, 404, 404, 404]
    assert (api.delete(f"{V2}/images/").status_code, api.post(f"{V2}/images/", {}).status_code) == (404, 404)
