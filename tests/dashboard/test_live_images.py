"""The open list of images follows those that come, change and go elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.dashboard.live import render
from provisioning.events import selectors as events
from provisioning.images import services
from provisioning.images.models import Image
from tests.dashboard.test_live import order_of
from tests.support.cast import Person


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


def test_a_new_image_is_put_into_an_open_list(alice: Person, live: Callable[[], str]) -> None:
    older = create(alice, "older")
    Image.objects.update(created_at=timezone.now() - timedelta(hours=1))
    newer = create(alice, "newer")
    order = [f"image-{newer.id}", f"image-{older.id}"]
    html = live()
    assert order_of(html) == order
    assert html.index("newer") < html.index("older")
    services.update(alice.context, older.id, {"name": "renamed"})
    html = live()
    assert "renamed" in html
    assert ">newer<" not in html, "it has not changed"
    assert order_of(html) == order


def test_an_image_that_is_deleted_leaves_the_list(alice: Person, live: Callable[[], str]) -> None:
    image = create(alice, "short-lived")
    live()
    services.delete(alice.context, image.id)
    assert order_of(live()) == []


def test_a_change_of_a_record_is_shown_and_not_announced(alice: Person, live: Callable[[], str]) -> None:
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
