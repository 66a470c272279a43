"""Images shared with other projects: offered, accepted, declined, withdrawn."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from provisioning.images import services
from provisioning.images.models import Image, ImageMember
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People, sign_in_browser
from tests.support.clouds import Cloud
from tests.support.standing import standing


@pytest.fixture
@standing
def gift(people: People, cloud: Cloud) -> Image:
    return services.create(people.alice.context, name="gift", disk_format="raw", container_format="bare")


def browser(person: Any) -> Client:
    client = Client()
    sign_in_browser(client, person)
    return client


@pytest.mark.slow
def test_from_offer_to_end(people: People, gift: Image) -> None:
    alice, charlie = browser(people.alice), browser(people.charlie)
    assert f"/images/{gift.id}/share/" in alice.get("/images/").content.decode()
    assert "gift" not in charlie.get("/images/").content.decode()
    assert alice.post(f"/images/{gift.id}/share/", {"project": people.charlie.project_id.hex}).status_code == 303
    page = alice.get(f"/images/{gift.id}/share/").content.decode()
    assert "factory" in page
    assert "pending" in page

    offers = charlie.get("/images/").content.decode()
    assert "offered to this project" in offers
    assert "Accept gift?" in charlie.get(f"/images/{gift.id}/accept/").content.decode()
    assert charlie.post(f"/images/{gift.id}/accept/").status_code == 303
    listed = charlie.get("/images/").content.decode()
    assert "shared with this project" in listed
    assert "offered" not in listed
    assert f"/images/{gift.id}/share/" not in listed
    assert charlie.post(f"/images/{gift.id}/decline/").status_code == 303
    assert ImageMember.objects.get().status == "rejected"
    assert "gift" not in charlie.get("/images/").content.decode()

    place = f"/images/{gift.id}/share/{people.charlie.project_id}/"
    assert alice.get(place).status_code == 200
    assert alice.post(place).status_code == 303
    assert not ImageMember.objects.exists()


def test_refusals_stand_at_the_field(people: People, gift: Image) -> None:
    answer = browser(people.alice).post(f"/images/{gift.id}/share/", {"project": "nobody"})
    assert answer.status_code == 422
    assert "There is no project nobody." in answer.content.decode()


@pytest.mark.slow
def test_operators_are_not_offered_what_others_share(people: People, gift: Image) -> None:
    services.add_member(people.alice.context, gift.id, people.charlie.project_id)
    page = browser(people.operator).get("/images/").content.decode()
    assert "gift" in page
    assert "offered" not in page
    assert "the project that owns it and the ones it is shared with" in page
    assert f"/images/{gift.id}/decline/" not in page


def test_readers_have_no_buttons(people: People, gift: Image, signed_in: SignedIn) -> None:
    client = signed_in(people.bob)
    assert f"/images/{gift.id}/share/" not in client.get("/images/").content.decode()
    assert client.get(f"/images/{gift.id}/share/").status_code == 403


@pytest.mark.parametrize("visibility", ["private", "shared", "community"])
def test_who_may_use_a_new_image(people: People, cloud: Cloud, visibility: str) -> None:
    client = browser(people.alice)
    typed, script = {"name": "x", "disk_format": "raw", "size": "512"}, {"Accept": "application/json"}
    answer = client.post("/images/upload/", {**typed, "visibility": visibility}, headers=script)
    assert answer.status_code == 201
    assert Image.objects.get(name="x").visibility == visibility
    refused = client.post("/images/upload/", {**typed, "name": "y", "visibility": "public"}, headers=script)
    assert refused.json()["field"] == "visibility"
