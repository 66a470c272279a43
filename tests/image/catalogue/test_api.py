"""The catalogue in the Image API."""

from __future__ import annotations

import pytest

from provisioning.catalogue import services
from provisioning.images.models import Image
from tests.image.catalogue.publishing import Publisher, entry
from tests.image.imports.importing import V2
from tests.support.cast import Api, Person
from tests.support.jobs import drain
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db(transaction=True)
LIST, ONE, ADD = f"{V2}/catalogue", f"{V2}/catalogue/tiny", f"{V2}/catalogue/tiny/add"


def test_a_script_adds_an_image_and_waits_for_it(alice: Person, folder: Publisher) -> None:
    folder.publish(entry())
    api = Api(alice)
    (listed,) = api.get(LIST).json()["catalogue"]
    assert (listed["id"], listed["status"], listed["image_id"]) == ("tiny", "not added", None)
    answer = api.post(ADD, {})
    assert (answer.status_code, answer.json()["status"]) == (202, "fetching")
    drain()
    shown = api.get(ONE).json()
    assert (shown["status"], shown["image_id"]) == ("added", str(Image.objects.get().id))
    assert (shown["visibility"], shown["image_version"]) == ("private", "1.0")
    assert api.post(ADD, {"visibility": "private"}).status_code == 409


@each_row("body", [{"visibility": "shared"}, {"visibility": 1}, {"more": 1}, []])
def test_a_wrong_body_is_refused(alice: Person, folder: Publisher, body: object) -> None:
    folder.publish(entry())
    assert Api(alice).post(ADD, body).status_code == 400


def test_the_fault_of_the_index_is_reported_to_operators(alice: Person, operator: Person, folder: Publisher) -> None:
    folder.publish(entry())
    (folder.folder / "index.json.sig").unlink()
    services.refresh()
    assert Api(alice).get(LIST).json()["fault"] is None
    assert "cannot be read" in Api(operator).get(LIST).json()["fault"]


def test_who_may_not_add_is_refused(alice: Person, bob: Person, folder: Publisher) -> None:
    folder.publish(entry())
    assert Api(bob).post(ADD, {}).status_code == 403
    assert Api(alice).post(ADD, {"visibility": "public"}).status_code == 403
    assert Api(alice).get(f"{V2}/catalogue/other").status_code == 404
    assert Api(bob).get(LIST).status_code == 200
