"""The image catalogue: its cards, their buttons, and what the socket sends."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from portal.dashboard.images.marks import MARKS
from portal.dashboard.live import render
from provisioning.catalogue import services
from provisioning.catalogue.index import entries
from provisioning.catalogue.index.reading import BUILT_IN_FILE
from provisioning.catalogue.models import CatalogueIndex
from provisioning.events import selectors as events
from provisioning.images.models import Image, ImageTask
from tests.dashboard.conftest import SignedIn
from tests.image.catalogue.publishing import Publisher, entry, folder  # noqa: F401 - a fixture
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.jobs import drain

PAGE = "/images/catalogue/"
ADD = f"{PAGE}tiny/add/"
WRONG = {"checksum": {"algorithm": "sha256", "value": "0" * 64}}


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> None:
    settings.IMAGE_DIR = tmp_path / "images"


def text(client: Client, path: str = PAGE) -> str:
    return " ".join(client.get(path).content.decode().split())


def sent(person: Person, after: int = 0) -> str:
    log = events.since([f"project:{person.project_id}", events.EVERYBODY], after)
    return " ".join(render("catalogue", log, person.context).split())


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_image_is_added_with_one_click(at_alice: Client, alice: Person, folder: Publisher) -> None:  # noqa: F811
    folder.publish(entry(name="Tiny <Linux>"))
    page = text(at_alice)
    assert "<bdi>Tiny &lt;Linux&gt;</bdi>" in page
    assert 'value="public"' not in page, "for all projects only by operators"
    answer = at_alice.post(ADD, {"visibility": "private"})
    assert (answer.status_code, answer["Location"]) == (303, f"{PAGE}#catalogue-tiny")
    assert "waiting" in text(at_alice)
    ImageTask.objects.update(done=43, total=100)
    assert "43&nbsp;%" in text(at_alice)
    assert 'value="43"' in sent(alice)
    drain()
    page, card = text(at_alice), sent(alice)
    assert "Added" in page
    assert f'href="/instances/launch/?image={Image.objects.get().id}"' in page
    assert card.startswith('<li id="catalogue-tiny"')
    assert 'data-live-say="Tiny &lt;Linux&gt; was added"' in card
    assert "csrfmiddlewaretoken" not in card
    assert ADD not in page


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_operator_adds_for_all_and_others_see_it(
    signed_in: SignedIn,
    operator: Person,
    at_alice: Client,
    alice: Person,
    folder: Publisher,  # noqa: F811
) -> None:
    folder.publish(entry())
    assert 'value="public"' in text(signed_in(operator))
    at_alice.post(ADD, {"visibility": "public"})
    assert Image.objects.count() == 0
    signed_in(operator).post(ADD, {"visibility": "public"})
    drain()
    assert "for all projects" in text(at_alice)
    assert "Tiny Linux was added" in sent(alice)


@pytest.mark.django_db(transaction=True)
def test_a_failure_is_explained_on_the_card(at_alice: Client, alice: Person, folder: Publisher) -> None:  # noqa: F811
    folder.publish(entry(**WRONG))
    at_alice.post(ADD, {"visibility": "private"})
    drain()
    assert "checksum of tiny.qcow2 is wrong" in text(at_alice)
    assert "could not be added" in sent(alice)
    assert ADD in text(at_alice), "it can be tried again"
    assert "Tiny Linux" not in text(at_alice, "/images/")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_newer_version_is_offered(at_alice: Client, folder: Publisher) -> None:  # noqa: F811
    folder.publish(entry())
    at_alice.post(ADD, {"visibility": "private"})
    drain()
    folder.publish(entry(version="2.0"))
    page = text(at_alice)
    assert "Newer version available" in page
    assert "version 1.0 is in this project" in page
    at_alice.post(ADD, {"visibility": "private"})
    drain()
    assert "Newer version available" not in text(at_alice)


def test_adding_again_says_so(at_alice: Client, alice: Person, folder: Publisher) -> None:  # noqa: F811
    folder.publish(entry())
    services.add(alice.context, "tiny", for_all=False)
    assert "already being fetched" in at_alice.post(ADD, {"visibility": "private"}, follow=True).content.decode()
    assert at_alice.post(f"{PAGE}nothing/add/", {"visibility": "private"}).status_code == 404


def test_a_reader_sees_no_button(signed_in: SignedIn, bob: Person, folder: Publisher) -> None:  # noqa: F811
    folder.publish(entry())
    assert "Tiny Linux" in text(signed_in(bob))
    assert ADD not in text(signed_in(bob))
    assert signed_in(bob).post(ADD).status_code == 403


def test_a_fault_of_the_index_is_reported_to_operators(
    signed_in: SignedIn,
    operator: Person,
    at_alice: Client,
    folder: Publisher,  # noqa: F811
    settings: Settings,
) -> None:
    assert "has not been read yet" in text(at_alice)
    folder.publish(entry())
    settings.CATALOGUE_KEYS = []
    services.refresh()
    assert "NOVELLA_CATALOGUE_KEYS" in text(signed_in(operator))
    page = text(at_alice)
    assert "NOVELLA_CATALOGUE_KEYS" not in page
    assert "cannot be read" in page
    settings.CATALOGUE = "none"
    assert "There is no catalogue" in text(at_alice)
    assert CatalogueIndex.objects.count() == 1


def test_an_empty_cloud_points_to_the_catalogue(at_alice: Client, cloud: Cloud) -> None:
    Image.objects.update(hidden=True)
    assert f'href="{PAGE}"' in text(at_alice, "/instances/launch/").partition('id="images"')[2]
    assert f'href="{PAGE}"' in text(at_alice, "/images/")


def test_the_wizard_opens_with_the_image(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    other = Image.objects.create(
        project_id=alice.project_id, name="zz", status="active", disk_format="raw", size=1, virtual_size=1
    )
    answer = at_alice.get(f"/instances/launch/?image={other.id}")
    assert answer.context["form"].initial["image"] == str(other.id)
    answer = at_alice.get("/instances/launch/?image=nonsense")
    assert answer.context["form"].initial["image"] != "nonsense"


def test_a_distribution_is_drawn_unless_the_index_has_letters(at_alice: Client, folder: Publisher) -> None:  # noqa: F811
    folder.publish(entry(distro="debian"))
    assert MARKS["debian"][0] in text(at_alice)
    folder.publish(entry(distro="debian", mark="De"), updated="2026-01-02T00:00:00Z")
    page = text(at_alice)
    assert ">De</span>" in page
    assert MARKS["debian"][0] not in page
    folder.publish(entry(distro="other", name="Tiny"), updated="2026-01-03T00:00:00Z")
    assert 'aria-hidden="true">T</span>' in text(at_alice)


def test_every_distribution_of_the_built_in_index_is_drawn() -> None:
    index = entries.read(BUILT_IN_FILE.read_bytes())
    assert {each.distro for each in index.images} == MARKS.keys()
