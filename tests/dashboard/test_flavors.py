"""Flavors: seen by all, made and removed by operators."""

from __future__ import annotations

from django.test import Client

from provisioning.compute.models import Flavor
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.tables import each_row

TYPED = {"name": "m1.new", "vcpus": "2", "memory_mb": "512", "root_gb": "5", "is_public": "on"}


def test_everybody_sees_the_sizes_smallest_first(at_alice: Client, cloud: Cloud) -> None:
    answer = at_alice.get("/flavors/")
    assert [flavor.name for flavor in answer.context["records"]] == ["m1.small", "m1.big"]
    assert "New flavor" not in answer.content.decode()


def test_private_sizes_of_others_are_not_seen(at_alice: Client, operator: Person, cloud: Cloud) -> None:
    create_flavor(operator.context, FlavorRequest("secret-size", 1, 64, 1, is_public=False))
    assert "secret-size" not in at_alice.get("/flavors/").content.decode()


def test_a_member_makes_and_removes_none(at_alice: Client, cloud: Cloud) -> None:
    assert at_alice.get("/flavors/create/").status_code == 403
    assert at_alice.post("/flavors/create/", TYPED).status_code == 403
    assert at_alice.post("/flavors/1/delete/").status_code == 403
    assert Flavor.objects.count() == 2


def test_an_operator_makes_one(signed_in: SignedIn, operator: Person, db: None) -> None:
    answer = signed_in(operator).post("/flavors/create/", TYPED, follow=True)
    assert "m1.new was created." in answer.content.decode()
    made = Flavor.objects.get()
    assert (made.vcpus, made.memory_mb, made.root_gb, made.is_public) == (2, 512, 5, True)


@each_row(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "m1.small"}, "name"),
        ({"vcpus": "0"}, "vcpus"),
        ({"vcpus": "two"}, "vcpus"),
        ({"memory_mb": ""}, "memory_mb"),
        ({"memory_mb": "0"}, "memory_mb"),
        ({"root_gb": "-1"}, "root_gb"),
    ],
)
def test_what_is_wrong_is_reported_at_its_field(
    signed_in: SignedIn, operator: Person, cloud: Cloud, changes: dict[str, str], field: str
) -> None:
    answer = signed_in(operator).post("/flavors/create/", TYPED | changes)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert Flavor.objects.count() == 2


def test_an_operator_removes_one_and_instances_keep_theirs(
    signed_in: SignedIn, alice: Person, operator: Person, cloud: Cloud
) -> None:
    instance = cloud.launch(alice.context)
    client = signed_in(operator)
    assert "Delete m1.small?" in client.get("/flavors/1/delete/").content.decode()
    client.post("/flavors/1/delete/")
    assert not Flavor.objects.filter(flavorid="1").exists()
    assert "m1.small" in signed_in(alice).get(f"/instances/{instance.id}/").content.decode()


def test_an_unknown_size_is_not_there(signed_in: SignedIn, operator: Person, db: None) -> None:
    assert signed_in(operator).get("/flavors/99/delete/").status_code == 404
