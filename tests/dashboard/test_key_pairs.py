"""Key pairs of the person who is signed in."""

from __future__ import annotations

import pytest
from django.test import Client

from provisioning.compute.models import KeyPair
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.tables import each_row

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@laptop"
CREATE = "/key-pairs/create/"


def test_an_empty_list_says_what_a_key_is_for(at_alice: Client) -> None:
    assert "connect to your instances by SSH" in at_alice.get("/key-pairs/").content.decode()


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [("ed25519", "ssh-ed25519"), pytest.param("rsa", "ssh-rsa", marks=pytest.mark.slow)],  # primes take their time
)
def test_a_new_pair_shows_its_private_half_once(at_alice: Client, algorithm: str, kind: str) -> None:
    answer = at_alice.post(CREATE, {"name": "laptop", "how": "make", "algorithm": algorithm})
    assert answer.status_code == 201
    assert "BEGIN OPENSSH PRIVATE KEY" in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]
    assert KeyPair.objects.get().public_key.startswith(kind)
    assert "PRIVATE KEY" not in at_alice.get("/key-pairs/").content.decode()


def test_a_public_key_is_imported(at_alice: Client) -> None:
    answer = at_alice.post(CREATE, {"name": "laptop", "how": "import", "public_key": f"  {PUBLIC}\n"}, follow=True)
    assert "laptop can be chosen at the next launch." in answer.content.decode()
    assert KeyPair.objects.get().public_key == PUBLIC


@each_row(
    ("fields", "place"),
    [
        ({"name": "", "how": "make"}, "name"),
        ({"name": "a/b", "how": "make"}, "name"),
        ({"name": "laptop", "how": "import", "public_key": ""}, "public_key"),
        ({"name": "laptop", "how": "import", "public_key": "-----BEGIN OPENSSH PRIVATE KEY-----"}, "public_key"),
    ],
)
def test_what_is_wrong_is_reported_at_its_field(at_alice: Client, fields: dict[str, str], place: str) -> None:
    answer = at_alice.post(CREATE, fields)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [place]
    assert not KeyPair.objects.exists()


def test_a_name_is_taken_once(at_alice: Client) -> None:
    at_alice.post(CREATE, {"name": "laptop", "how": "make"})
    answer = at_alice.post(CREATE, {"name": "laptop", "how": "make"})
    assert list(answer.context["form"].errors) == ["name"]


def test_a_key_is_deleted_after_a_question(at_alice: Client) -> None:
    at_alice.post(CREATE, {"name": "my laptop", "how": "make"})
    assert "Delete my laptop?" in at_alice.get("/key-pairs/my%20laptop/delete/").content.decode()
    at_alice.post("/key-pairs/my%20laptop/delete/")
    assert not KeyPair.objects.exists()


def test_keys_of_others_do_not_exist(at_alice: Client, signed_in: SignedIn, bob: Person, charlie: Person) -> None:
    signed_in(charlie).post(CREATE, {"name": "charlies", "how": "make"})
    assert "charlies" not in at_alice.get("/key-pairs/").content.decode()
    assert at_alice.post("/key-pairs/charlies/delete/").status_code == 404
    assert KeyPair.objects.count() == 1


def test_a_reader_makes_none(signed_in: SignedIn, bob: Person) -> None:
    assert signed_in(bob).post(CREATE, {"name": "x", "how": "make"}).status_code == 403
