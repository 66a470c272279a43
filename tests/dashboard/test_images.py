"""Images: list, upload, delete."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from provisioning.images.models import Image
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud

UPLOAD = "/images/upload/"


@pytest.fixture(autouse=True)
def _image_folder(settings: Any, tmp_path: Any) -> None:
    settings.IMAGE_DIR = tmp_path


def record(client: Client, **changes: str) -> Any:
    return client.post(UPLOAD, {"name": "debian", "disk_format": "raw", "min_ram": "512", **changes})


def send(client: Client, path: str, data: bytes) -> Any:
    return client.generic("PUT", path, data, content_type="application/octet-stream")


def foreign_image(person: Person, **values: Any) -> Image:
    return Image.objects.create(project_id=person.project_id, **{"name": "foreign", "status": "active", **values})


def test_the_list_shows_what_can_be_used(at_alice: Client, charlie: Person, cloud: Cloud) -> None:
    foreign_image(charlie, visibility="private")
    page = at_alice.get("/images/").content.decode()
    assert "small" in page
    assert "everybody" in page
    assert "foreign" not in page


def test_an_upload_makes_an_image(at_alice: Client, alice: Person, db: None) -> None:
    made = record(at_alice, min_disk="1", login="debian")
    assert made.status_code == 201
    done = send(at_alice, made.json()["upload"], bytes(4096))
    assert (done.status_code, done.json()["next"]) == (201, "/images/")
    image = Image.objects.get()
    assert (image.status, image.size, image.min_ram, image.min_disk) == ("active", 4096, 512, 1)
    assert (image.visibility, image.project_id) == ("private", alice.project_id)
    assert image.properties["os_admin_user"] == "debian"
    assert "debian is ready." in at_alice.get("/images/").content.decode()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"min_ram": "-1"}, "min_ram"),
        ({"min_ram": "9" * 30}, "min_ram"),
        ({"min_disk": "much"}, "min_disk"),
        ({"disk_format": "floppy"}, "disk_format"),
        ({"name": "x" * 256}, "name"),
    ],
)
def test_a_wrong_field_is_named(at_alice: Client, db: None, changes: dict[str, str], field: str) -> None:
    answer = record(at_alice, **changes)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert not Image.objects.exists()


def test_a_file_of_another_kind_leaves_nothing(at_alice: Client, db: None) -> None:
    made = record(at_alice, disk_format="qcow2")
    answer = send(at_alice, made.json()["upload"], b"no qcow2 at all" * 100)
    assert answer.status_code == 422
    assert answer.json()["field"] == "file"
    assert at_alice.get("/images/").context["rows"] == []


def test_a_member_publishes_nothing(at_alice: Client, signed_in: SignedIn, operator: Person, db: None) -> None:
    assert record(at_alice, visibility="public").status_code in {403, 422}
    assert not Image.objects.exists()
    assert record(signed_in(operator), visibility="public").status_code == 201
    assert Image.objects.get().visibility == "public"


def test_a_reader_uploads_nothing(signed_in: SignedIn, bob: Person, alice: Person) -> None:
    client = signed_in(bob)
    assert client.get(UPLOAD).status_code == 403
    assert record(client).status_code == 403
    queued = foreign_image(alice, status="queued", disk_format="raw", container_format="bare")
    assert send(client, f"/images/{queued.id}/data/", b"x").status_code == 403


def test_nobody_fills_or_deletes_a_foreign_image(at_alice: Client, charlie: Person) -> None:
    queued = foreign_image(charlie, status="queued", disk_format="raw", container_format="bare", visibility="private")
    for image_id in (queued.id, uuid.uuid4()):
        assert send(at_alice, f"/images/{image_id}/data/", b"x").status_code == 404
        assert at_alice.post(f"/images/{image_id}/delete/").status_code == 404
    queued.refresh_from_db()
    assert queued.status == "queued"


def test_a_public_image_of_others_has_no_button_and_stays(at_alice: Client, cloud: Cloud) -> None:
    assert not at_alice.get("/images/").context["rows"][0]["can_delete"]
    at_alice.post(f"/images/{cloud.image.id}/delete/")
    cloud.image.refresh_from_db()
    assert cloud.image.status == "active"


def test_an_own_image_is_deleted_after_a_question(at_alice: Client, alice: Person) -> None:
    image = foreign_image(alice, name="old")
    assert "Delete old?" in at_alice.get(f"/images/{image.id}/delete/").content.decode()
    assert "old was deleted." in at_alice.post(f"/images/{image.id}/delete/", follow=True).content.decode()
    assert at_alice.get("/images/").context["rows"] == []


def test_the_number_of_queries_does_not_grow(
    at_alice: Client, alice: Person, django_assert_num_queries: Callable[..., object]
) -> None:
    foreign_image(alice)
    at_alice.get("/images/")
    with django_assert_num_queries(6):  # type: ignore[attr-defined]
        at_alice.get("/images/")
    for _ in range(5):
        foreign_image(alice)
    with django_assert_num_queries(6):  # type: ignore[attr-defined]
        at_alice.get("/images/")
