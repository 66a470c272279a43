"""Images: list, upload, delete."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, TestCase
from django.utils import timezone
from pytest_django import Settings

from portal.web.streams import BodyInterruptedError
from provisioning.common.errors import ConflictError
from provisioning.images import services
from provisioning.images.models import Image
from provisioning.images.services import recovery
from provisioning.jobs.periodic import reaping
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.tables import each_row

UPLOAD = "/images/upload/"


@pytest.fixture(autouse=True)
def _image_folder(settings: Any, tmp_path: Any) -> None:
    settings.IMAGE_DIR = tmp_path


def record(client: Client, size: int = 4096, **changes: str) -> Any:
    """Create the record of an upload, as the page's script does."""
    typed = {"name": "debian", "disk_format": "raw", "min_ram": "512", "size": str(size), **changes}
    return client.post(UPLOAD, typed, headers={"Accept": "application/json"})


def send(client: Client, path: str, data: bytes, offset: int = 0) -> Any:
    """Send a part of the file."""
    headers = {"Upload-Offset": str(offset)}
    return client.generic("PUT", path, data, content_type="application/octet-stream", headers=headers)


def foreign_image(person: Person, **values: Any) -> Image:
    return Image.objects.create(project_id=person.project_id, **{"name": "foreign", "status": "active", **values})


def test_the_list_shows_what_can_be_used(at_alice: Client, charlie: Person, cloud: Cloud) -> None:
    foreign_image(charlie, visibility="private")
    page = at_alice.get("/images/").content.decode()
    assert "small" in page
    assert "public" in page
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


@each_row(
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
    made = record(at_alice, 1500, disk_format="qcow2")
    answer = send(at_alice, made.json()["upload"], b"no qcow2 at all" * 100)
    assert answer.status_code == 422
    assert answer.json()["field"] == "file"
    assert at_alice.get("/images/").context["rows"] == []


def test_a_member_publishes_nothing(at_alice: Client, signed_in: SignedIn, operator: Person, db: None) -> None:
    assert record(at_alice, visibility="public").status_code in {403, 422}
    assert not Image.objects.exists()
    assert record(signed_in(operator), visibility="public").status_code == 201
    assert Image.objects.get().visibility == "public"


@pytest.mark.slow
def test_an_upload_goes_on_where_it_was_broken_off(at_alice: Client, db: None) -> None:
    data = hashlib.shake_256(b"image").digest(6000)
    path = record(at_alice, 6000).json()["upload"]
    assert send(at_alice, path, data[:2500]).json() == {"offset": 2500, "size": 6000}
    state = at_alice.get(path).json()
    assert (state["offset"], state["size"]) == (2500, 6000)
    assert base64.b64decode(state["end"]) == data[1476:2500]
    [row] = at_alice.get("/images/").context["rows"]
    assert (row["percent"], row["can_resume"]) == (41, True)
    assert [each["arrived"] for each in at_alice.get(UPLOAD).context["unfinished"]] == [2500]
    image = Image.objects.get()
    assert at_alice.get(f"/images/{image.id}/upload/").context["arrived"] == 2500
    assert send(at_alice, path, data[2500:], 2500).status_code == 201
    image.refresh_from_db()
    assert (image.status, image.size, image.os_hash_value) == ("active", 6000, hashlib.sha512(data).hexdigest())
    assert at_alice.get(path).json() == {"next": "/images/"}
    assert at_alice.get(UPLOAD).context["unfinished"] == []


def test_the_part_of_a_broken_connection_is_kept(at_alice: Client, monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    def broken(_: object) -> Iterator[bytes]:
        yield b"x" * 1000
        raise BodyInterruptedError

    path = record(at_alice).json()["upload"]
    with monkeypatch.context() as patched:
        patched.setattr("portal.dashboard.images.views.body_of", broken)
        assert send(at_alice, path, b"").status_code == 400
    assert at_alice.get(path).json()["offset"] == 1000
    assert send(at_alice, path, b"x" * 3096, 1000).status_code == 201


@pytest.mark.parametrize("offset", ["0", "2999", "3001"])
def test_a_part_begins_where_the_data_ends(at_alice: Client, offset: str, db: None) -> None:
    path = record(at_alice).json()["upload"]
    send(at_alice, path, b"x" * 3000)
    answer = send(at_alice, path, b"x" * 96, int(offset))
    assert (answer.status_code, answer.json()["offset"]) == (409, 3000)
    assert at_alice.get(path).json()["offset"] == 3000


@each_row("offset", ["", "-1", "x", "9" * 30])
def test_an_offset_is_a_number(at_alice: Client, offset: str, db: None) -> None:
    path = record(at_alice).json()["upload"]
    headers = {"Upload-Offset": offset}
    assert at_alice.generic("PUT", path, b"x", "application/octet-stream", headers=headers).status_code == 400


def test_more_than_was_announced_is_not_kept(at_alice: Client, db: None) -> None:
    path = record(at_alice).json()["upload"]
    assert send(at_alice, path, bytes(5000)).status_code == 400
    assert at_alice.get(path).json()["offset"] == 0


def test_an_upload_is_given_up_with_its_record(at_alice: Client, tmp_path: Path, db: None) -> None:
    path = record(at_alice).json()["upload"]
    send(at_alice, path, bytes(100))
    with TestCase.captureOnCommitCallbacks(execute=True):
        assert at_alice.delete(path).status_code == 204
    assert at_alice.get("/images/").context["rows"] == []
    assert list(tmp_path.iterdir()) == []
    assert send(at_alice, path, bytes(100), 100).status_code == 404
    assert at_alice.delete(path).status_code == 404


def test_the_announced_bytes_count_in_the_quota_from_the_beginning(
    at_alice: Client, settings: Settings, db: None
) -> None:
    settings.IMAGE_STORAGE_QUOTA = 10_000
    assert record(at_alice, 6000).status_code == 201
    refused = record(at_alice, 6000)
    assert refused.status_code == 422
    assert Image.objects.exclude(status="deleted").count() == 1
    assert record(at_alice, 4000).status_code == 201


def test_an_image_that_waits_for_parts_is_not_imported(at_alice: Client, alice: Person, db: None) -> None:
    record(at_alice)
    request = services.ImportRequest("glance-direct")
    with pytest.raises(ConflictError):
        services.Import.begin(alice.context, Image.objects.get().id, request)


def test_data_that_gets_no_more_parts_is_removed(
    at_alice: Client, settings: Settings, tmp_path: Path, django_capture_on_commit_callbacks: Any
) -> None:
    path = record(at_alice).json()["upload"]
    send(at_alice, path, bytes(100))
    long_ago = timezone.now() - timedelta(seconds=settings.STAGING_TIMEOUT - 60)
    Image.objects.update(updated_at=long_ago)
    assert (reaping.reap("images.clean_up", [Image]), recovery.sweep()) == (0, 0)
    Image.objects.update(updated_at=long_ago - timedelta(seconds=120))
    with django_capture_on_commit_callbacks(execute=True):
        assert reaping.reap("images.clean_up", [Image]) == 1
    assert (Image.objects.get().status, Image.objects.get().size) == ("queued", None)
    assert list(tmp_path.iterdir()) == []


def test_who_was_signed_out_is_notified_with_data(at_alice: Client, db: None) -> None:
    path = record(at_alice).json()["upload"]
    answer = send(Client(), path, bytes(4096))
    assert (answer.status_code, answer["Content-Type"]) == (401, "application/json")


def test_without_scripts_errors_are_on_the_page(at_alice: Client, db: None) -> None:
    page = at_alice.post(UPLOAD, {"name": "debian", "disk_format": "raw"})
    assert page.status_code == 422
    assert list(page.context["form"].errors) == ["file"]
    assert not Image.objects.exists()


def test_a_reader_uploads_nothing(signed_in: SignedIn, bob: Person, alice: Person) -> None:
    client = signed_in(bob)
    assert client.get(UPLOAD).status_code == 403
    assert record(client).status_code == 403
    queued = foreign_image(alice, status="queued", disk_format="raw", container_format="bare")
    path = f"/images/{queued.id}/data/"
    assert [each.status_code for each in (send(client, path, b"x"), client.get(path), client.delete(path))] == [403] * 3


def test_nobody_fills_or_deletes_a_foreign_image(at_alice: Client, charlie: Person) -> None:
    queued = foreign_image(charlie, status="queued", disk_format="raw", container_format="bare", visibility="private")
    for image_id in (queued.id, uuid.uuid4()):
        path = f"/images/{image_id}/data/"
        assert send(at_alice, path, b"x").status_code == 404
        assert (at_alice.get(path).status_code, at_alice.delete(path).status_code) == (404, 404)
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
    with django_assert_num_queries(10):  # type: ignore[attr-defined]
        at_alice.get("/images/")
    for _ in range(5):
        foreign_image(alice)
    with django_assert_num_queries(10):  # type: ignore[attr-defined]
        at_alice.get("/images/")


# ----- hardware -------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(alice: Person, db: None) -> Image:
    return foreign_image(alice, name="mine", visibility="private", found_firmware="uefi")


def test_the_hardware_of_an_image_is_chosen_in_a_form(at_alice: Client, own: Image) -> None:
    Image.objects.filter(id=own.id).update(properties={"os_distro": "debian", "hw_video_model": "odd"})
    page = at_alice.get(f"/images/{own.id}/hardware/").content.decode()
    assert "As detected: UEFI" in page
    assert '<option value="odd" selected>' in page
    typed = {"hw_disk_bus": "sata", "hw_qemu_guest_agent": "yes", "os_secure_boot": "required", "hw_video_model": ""}
    assert at_alice.post(f"/images/{own.id}/hardware/", typed).status_code == 303
    own.refresh_from_db()
    kept = {name: value for name, value in typed.items() if value}
    assert own.properties == {"os_distro": "debian", **kept}
    (row,) = [each for each in at_alice.get("/images/").context["rows"] if each["image"] == own]
    assert row["hardware"] == "boots with UEFI (detected) · Secure Boot · sata"
    assert row["can_equip"]


@each_row(
    ("typed", "field"),
    [
        ({"hw_disk_bus": "bogus"}, "hw_disk_bus"),
        ({"hw_tpm_model": "tpm-crb", "hw_tpm_version": "1.2"}, "hw_tpm_model"),
        ({"os_secure_boot": "required", "hw_firmware_type": "bios"}, "os_secure_boot"),
        ({"hw_machine_type": "q35", "hw_disk_bus": "ide"}, "hw_disk_bus"),
    ],
)
def test_hardware_that_no_guest_can_have_is_refused_at_its_field(
    at_alice: Client, own: Image, typed: dict[str, str], field: str
) -> None:
    answer = at_alice.post(f"/images/{own.id}/hardware/", typed)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert "hw_" not in answer.context["form"].errors[field].as_text()
    assert Image.objects.get(id=own.id).properties == {}


def test_hardware_is_set_for_images_of_the_project(at_alice: Client, charlie: Person, cloud: Cloud) -> None:
    theirs = foreign_image(charlie, visibility="public")
    assert at_alice.post(f"/images/{theirs.id}/hardware/", {"hw_disk_bus": "sata"}).status_code == 422
    assert Image.objects.get(id=theirs.id).properties == {}
    rows = {each["image"].id: each["can_equip"] for each in at_alice.get("/images/").context["rows"]}
    assert not rows[theirs.id]
