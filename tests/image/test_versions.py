"""Versions of the Image API: minor ones are version 2, by address or by ``Accept``; others get the list."""

from __future__ import annotations

import uuid

import pytest

from tests.image import pictures
from tests.image.asking import V2
from tests.image.conftest import MakeImage
from tests.support.cast import Api, Person
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
BY_TYPE = "application/vnd.openstack.images-"


def test_the_list_is_newest_first_and_for_anybody(alice: Person) -> None:
    client = Api(alice).client
    answers = [client.get(path) for path in ("/image", "/image/", "/image/v2", "/image/versions", "/image/versions/x")]
    assert [answer.status_code for answer in answers] == [300, 300, 300, 200, 200]
    versions = answers[0].json()["versions"]
    assert [version["status"] for version in versions] == ["CURRENT", *["SUPPORTED"] * (len(versions) - 1)]
    assert (versions[0]["id"], versions[-1]["id"]) == ("v2.17", "v2.0")
    assert {link["href"] for version in versions for link in version["links"]} == {"http://127.0.0.1:8000/image/v2/"}
    assert all(answer.json() == answers[0].json() for answer in answers)


@each_row("path", ["v1/images", "v3/images", "v2.14/images", "v2.99/images", "images", "v", "x/y/z", "%"])
@each_row("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_what_is_of_no_version_gets_the_list(alice: Person, path: str, method: str) -> None:
    answer = Api(alice).client.generic(method, f"/image/{path}", b"{", content_type="application/json")
    assert answer.status_code == 300
    assert method == "HEAD" or answer.json()["versions"][0]["status"] == "CURRENT"


def test_a_minor_version_is_version_2(alice: Person, bob: Person, make: MakeImage) -> None:
    image = make(data=pictures.raw())
    for version in ("v2.0", "v2.7", "v2.17"):
        path = f"/image/{version}/images/{image.id}"
        assert Api(alice).get(path).json() == Api(alice).get(f"{V2}/images/{image.id}").json()
        assert Api(bob).client.get(path).status_code == 401
    assert Api(alice).get("/image/v2.7/nothing").status_code == 404
    made = Api(alice).post("/image/v2.3/images", {"name": "new"})
    assert (made.status_code, made.json()["name"]) == (201, "new")
    assert Api(alice).delete(f"/image/v2.3/images/{made.json()['id']}").status_code == 204


def test_a_version_by_type(alice: Person, make: MakeImage) -> None:
    image, api = make(), Api(alice)
    for version in ("v2", "v2.7"):
        assert api.get(f"/image/images/{image.id}", Accept=BY_TYPE + version).json()["id"] == str(image.id)
        assert api.get(f"{V2}/images", Accept=BY_TYPE + version).status_code == 404, "the version stands there twice"
    for path in ("/image/images", f"{V2}/images", f"{V2}/images/{uuid.uuid4()}", "/image"):
        assert api.get(path, Accept=BY_TYPE + "v3").status_code == 300
    assert api.get("/image/versions", Accept=BY_TYPE + "v3").status_code == 200


@each_row("accept", ["application/xml", "text/html", "*/*", "application/json;q=0.1", ";;"])
def test_answers_are_json_whatever_is_accepted(alice: Person, make: MakeImage, accept: str) -> None:
    image = make()
    answer = Api(alice).get(f"{V2}/images/{image.id}", Accept=accept)
    assert (answer["Content-Type"], answer.json()["id"]) == ("application/json", str(image.id))
