"""Imports that are refused: wrong requests, other people's images, and what is beyond a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django_q.models import OrmQ
from pytest_django import Settings

from provisioning.images import services
from provisioning.images.models import ImageTask
from provisioning.images.services import imports
from provisioning.quotas.services.limits import set_limit
from tests.image import pictures
from tests.image.conftest import MakeImage, files
from tests.image.imports.importing import V2, ask, put, show, task_id, task_of
from tests.support.cast import Api, Person
from tests.support.jobs import drain
from tests.support.tables import each_row
from tests.support.web import Web

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.slow
@each_row(
    ("body", "status", "words"),
    [
        ({}, 400, "method"),
        ({"method": {}}, 400, "name"),
        ({"method": "web-download"}, 400, "method"),
        ({"method": {"name": "copy-image"}}, 400, "Unknown import method name 'copy-image'"),
        ({"method": {"name": "web-download"}}, 400, "does not pass filtering"),
        ({"method": {"name": "web-download", "uri": 5}}, 400, "uri"),
        ({"method": {"name": "web-download", "uri": "http://127.0.0.2/"}}, 400, "does not pass filtering"),
        ({"method": {"name": "web-download", "uri": "http://a@example.org/"}}, 400, "does not pass filtering"),
        ({"method": {"name": "glance-direct"}}, 409, "needs to be staged"),
        ({"method": {"name": "glance-direct"}, "all_stores_must_succeed": "yes"}, 400, "all_stores_must_succeed"),
        ({"method": {"name": "web-download", "uri": "URI"}, "stores": ["fast"]}, 409, "store fast is not available"),
        ({"method": {"name": "web-download", "uri": "URI"}, "stores": ["local"], "all_stores": True}, 400, "together"),
        (["method"], 400, ""),
    ],
)
def test_a_wrong_request_changes_nothing(
    alice: Person, make: MakeImage, web: Web, body: Any, status: int, words: str
) -> None:
    image = make()
    if isinstance(body, dict) and isinstance(body.get("method"), dict) and body["method"].get("uri") == "URI":
        body = {**body, "method": {**body["method"], "uri": web.url("/x")}}
    answer = Api(alice).post(f"{V2}/images/{image.id}/import", body)
    assert answer.status_code == status, answer.content
    assert words in answer.json()["message"]
    assert (show(alice, image)["status"], ImageTask.objects.count()) == ("queued", 0)


@pytest.mark.parametrize("missing", ["disk_format", "container_format"])
def test_formats_come_before_the_import(alice: Person, make: MakeImage, web: Web, missing: str) -> None:
    image = make(**{missing: None})
    answer = ask(alice, image, web.url("/x"))
    assert answer.status_code == 409
    assert answer.json()["message"] == f"'{missing}' needs to be set before import"


def test_an_image_with_data_is_no_target(alice: Person, make: MakeImage, web: Web) -> None:
    image = make(data=pictures.raw())
    answer = ask(alice, image, web.url("/x"))
    assert answer.status_code == 409
    assert answer.json()["message"] == "Image with status active cannot be target for import"
    assert put(alice, image, b"x").status_code == 409


def test_one_import_at_a_time(alice: Person, make: MakeImage, web: Web) -> None:
    image = make()
    assert ask(alice, image, web.serve("/x", pictures.raw())).status_code == 202
    assert ask(alice, image, web.url("/x")).status_code == 409
    assert put(alice, image, b"x").status_code == 409
    assert ImageTask.objects.count() == 1


def test_methods_can_be_switched_off(alice: Person, make: MakeImage, web: Web, settings: Settings) -> None:
    settings.IMPORT_METHODS = ["web-download"]
    image = make()
    assert put(alice, image, b"x").status_code == 404
    assert ask(alice, image).status_code == 400
    settings.IMPORT_METHODS = ["glance-direct"]
    assert ask(alice, image, web.url("/x")).status_code == 400


def test_others_images_are_not_imported(
    alice: Person, bob: Person, charlie: Person, operator: Person, make: MakeImage, web: Web
) -> None:
    image = make()
    uri = web.serve("/x", pictures.raw())
    assert ask(bob, image, uri).status_code == 403
    assert ask(charlie, image, uri).status_code == 404
    assert ask(charlie, make(visibility="community"), uri).status_code == 403
    assert put(charlie, image, b"x").status_code == 404
    assert ask(operator, image, uri).status_code == 202
    assert task_of(image).project_id == alice.project_id


def test_data_that_is_staged_is_bounded(alice: Person, make: MakeImage, settings: Settings, store: Path) -> None:
    image = make()
    assert put(alice, image, b"four", X_OpenStack_Image_Size="5").status_code == 400
    settings.IMAGE_STORAGE_QUOTA = 100
    assert put(alice, image, b"x" * 101).status_code == 413
    settings.IMAGE_STORAGE_QUOTA, settings.MAX_IMAGE_SIZE = 0, 10
    assert put(alice, image, b"x" * 11).status_code == 413
    path = f"{V2}/images/{image.id}/stage"
    wrong = Api(alice).client.generic("PUT", path, b"{}", content_type="application/json", headers=alice.headers)
    assert wrong.status_code == 415
    assert (show(alice, image)["status"], files(store)) == ("queued", [])


def test_nothing_is_imported_beyond_the_quota(alice: Person, make: MakeImage, web: Web, settings: Settings) -> None:
    settings.IMAGE_STORAGE_QUOTA = pictures.MIB
    first, second = make(), make()
    assert put(alice, first, pictures.raw()).status_code == 204  # all of it
    assert ask(alice, second, web.serve("/x", b"one more")).status_code == 413
    assert ask(alice, first).status_code == 202
    drain()
    assert show(alice, first)["status"] == "active"


@pytest.mark.slow
def test_a_project_has_two_imports_going_on_and_each_end_calls_the_next(
    alice: Person, charlie: Person, make: MakeImage, web: Web
) -> None:
    uri = web.serve("/x", pictures.raw())
    mine = [make() for _ in range(4)]
    for image in mine:
        assert ask(alice, image, uri).status_code == 202
    assert [task_id(text) for text in waiting()] == [str(task_of(image).id) for image in mine[:2]]
    assert show(alice, mine[3])["status"] == "importing"
    theirs = make(charlie)
    ask(charlie, theirs, uri)
    assert len(waiting()) == 3, "others have a line of their own"
    services.delete(alice.context, mine[2].id)
    imports.fail(task_of(mine[0]).id, "The download broke off.")
    drain()
    assert [show(alice, image)["status"] for image in (mine[0], mine[1], mine[3])] == ["queued", "active", "active"]
    assert show(charlie, theirs)["status"] == "active"
    assert not ImageTask.objects.filter(status__in=("pending", "processing")).exists()
    assert not waiting()


def waiting() -> list[str]:
    return list(OrmQ.objects.filter(key="images").order_by("id").values_list("payload", flat=True))


def test_a_project_has_so_many_images(alice: Person, charlie: Person, make: MakeImage) -> None:
    set_limit(None, "image_count_total", 2)
    first = make()
    make()
    answer = Api(alice).post(f"{V2}/images", {"name": "third"})
    assert answer.status_code == 413
    assert "image_count_total" in answer.json()["message"]
    assert Api(alice).get(f"{V2}/info/usage").json()["usage"]["image_count_total"] == {"limit": 2, "usage": 2}
    make(charlie)
    set_limit(alice.project_id, "image_count_total", 3)
    make()
    services.delete(alice.context, first.id)
    make()
