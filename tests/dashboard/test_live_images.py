"""The open list of images follows those that come, change and go elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.dashboard.live import render
from provisioning.events import selectors as events
from provisioning.images import services
from provisioning.images.models import Image
from tests.support.cast import Person

NEW = 'data-live-container="image-rows"'


@pytest.fixture
def live(alice: Person, db: None) -> Callable[[], str]:
    """Return what the socket of an open list sends of the events since the last call."""
    seen = 0

    def send() -> str:
        nonlocal seen
        log = events.since([f"project:{alice.project_id}"], seen)
        seen = max((event.id for event in log), default=seen)
        return render("images", log, alice.context)

    return send


def create(person: Person, name: str) -> Image:
    return services.create(person.context, name=name, disk_format="raw", container_format="bare")


def test_a_new_image_is_put_into_an_open_list(at_alice: Client, alice: Person, live: Callable[[], str]) -> None:
    older = create(alice, "older")
    Image.objects.update(created_at=timezone.now() - timedelta(hours=1))
    create(alice, "newer")
    html = live()
    assert html.count(NEW) == 2
    assert html.index("older") < html.index("newer"), "each is put before the others"
    services.update(alice.context, older.id, {"name": "renamed"})
    html = live()
    assert "renamed" in html
    assert NEW not in html, "a later page of the list has it"
    assert 'id="image-rows"' in at_alice.get("/images/").content.decode()
    newest = Image.objects.latest("created_at")
    assert 'id="image-rows"' not in at_alice.get("/images/", {"marker": str(newest.id)}).content.decode()


def test_an_image_that_is_deleted_leaves_the_list(alice: Person, live: Callable[[], str]) -> None:
    image = create(alice, "short-lived")
    live()
    services.delete(alice.context, image.id)
    assert live() == f'<tr id="image-{image.id}" data-live-remove></tr>'


def test_a_change_of_a_record_is_shown_and_not_said(alice: Person, live: Callable[[], str]) -> None:
    image = create(alice, "disk")
    Image.objects.update(status=Image.Status.ACTIVE)
    live()
    services.deactivate(alice.context, image.id)
    html = live()
    assert "disk" in html
    assert "data-live-say" not in html
    services.reactivate(alice.context, image.id)
    html = live()
    assert "Ready" in html
    assert "data-live-say" not in html
