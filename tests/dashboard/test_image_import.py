"""Images from the web, as the dashboard makes and shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from portal.dashboard.live import render
from provisioning.common.context import RequestContext
from provisioning.events import selectors as events
from provisioning.identity import policy
from provisioning.images.models import Image, ImageTask
from provisioning.images.services import imports, tasks
from tests.image import pictures
from tests.image.imports.importing import web  # noqa: F401 - a fixture
from tests.support.cast import Person
from tests.support.jobs import drain
from tests.support.tables import each_row
from tests.support.web import Web


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> None:
    settings.IMAGE_DIR = tmp_path


def post(client: Client, uri: str, **values: str) -> Any:
    given = {"source": "web", "uri": uri, "name": "debian", "disk_format": "raw", **values}
    return client.post("/images/upload/", given, headers={"Accept": "application/json"})


def live(person: Person) -> str:
    log = events.since([f"project:{person.project_id}"], 0)
    return render("images", log, person.context)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_image_is_made_from_an_address(
    at_alice: Client,
    alice: Person,
    web: Web,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(imports, "REPORT_EVERY", 0.0)
    answer = post(at_alice, web.serve("/disk.raw", pictures.raw(4 * pictures.MIB)), login="debian", min_ram="64")
    assert (answer.status_code, answer.json()) == (201, {"next": "/images/"})
    image = Image.objects.get()
    assert (image.status, image.properties, image.min_ram) == ("importing", {"os_admin_user": "debian"}, 64)
    assert 'value="0"' in at_alice.get("/images/").content.decode()
    shown: list[str] = []
    original = tasks.move_on

    def watched(*arguments: Any) -> None:
        original(*arguments)
        shown.append(live(alice))

    monkeypatch.setattr(tasks, "move_on", watched)
    drain()
    assert 'max="100" value="25"' in shown[0]
    assert "Copied 1 MiB of 4 MiB" in shown[0]
    html = live(alice)
    assert html.count("<tr") == 1
    assert 'data-live-say="debian is ready"' in html
    assert "<progress" not in html
    assert "Ready" in at_alice.get("/images/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_why_an_import_failed_is_shown(at_alice: Client, alice: Person, web: Web) -> None:  # noqa: F811
    post(at_alice, web.url("/missing"))
    drain()
    assert "answers with HTTP 404" in at_alice.get("/images/").content.decode()
    assert 'data-live-say="debian could not be imported"' in live(alice)


@each_row("uri", ["", "http://127.0.0.1/", "file:///etc/passwd", "http://me:secret@example.org/"])
def test_an_address_that_is_refused_leaves_nothing(at_alice: Client, uri: str) -> None:
    answer = post(at_alice, uri)
    assert (answer.status_code, answer.json()["field"]) == (422, "uri")
    assert "secret" not in answer.json()["message"]
    assert (Image.objects.count(), ImageTask.objects.count()) == (0, 0)


def test_another_field_that_is_wrong_is_named(at_alice: Client) -> None:
    answer = post(at_alice, "http://example.org/", disk_format="floppy")
    assert (answer.status_code, answer.json()["field"]) == (422, "disk_format")


def test_the_form_offers_only_what_is_allowed(at_alice: Client, settings: Settings) -> None:
    assert 'name="source"' in at_alice.get("/images/upload/").content.decode()
    settings.IMPORT_METHODS = ["glance-direct"]
    page = at_alice.get("/images/upload/").content.decode()
    assert 'name="source"' not in page
    assert '<option value="vmdk"' in page
    assert '<option value="aki"' not in page
    assert post(at_alice, "http://example.org/").status_code == 422


def test_who_may_not_import_does_not(at_alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    allows = policy.allows

    def stricter(context: RequestContext, rule: str, *arguments: Any) -> bool:
        return rule != "modify_image" and allows(context, rule, *arguments)

    monkeypatch.setattr(policy, "allows", stricter)
    assert 'name="source"' not in at_alice.get("/images/upload/").content.decode()


def test_an_image_that_is_gone_is_taken_away(alice: Person, db: None) -> None:
    image = Image(project_id=alice.project_id)
    imports.announce(image.project_id, image.id, "importing", 5)
    rows = live(alice)
    assert str(image.id) not in rows
    assert '<tbody id="list-rows" data-live-order=""></tbody>' in rows, "the page removes rows outside the order"


def test_another_projects_images_are_not_shown(alice: Person, charlie: Person, db: None) -> None:
    image = Image.objects.create(project_id=charlie.project_id, name="private thing", visibility="private")
    imports.announce(alice.project_id, image.id, "importing", 5)
    assert "private thing" not in live(alice)


def test_an_address_needs_no_scripts(at_alice: Client, web: Web, db: None) -> None:  # noqa: F811
    given = {"source": "web", "uri": web.url("/disk.raw"), "name": "debian", "disk_format": "raw"}
    answer = at_alice.post("/images/upload/", given)
    assert (answer.status_code, answer["Location"]) == (303, "/images/")
    assert Image.objects.get().status == "importing"
