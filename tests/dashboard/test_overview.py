"""The overview: quota, newest instances, the terminal."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
import yaml
from django.test import Client

from provisioning.quotas.services.ledger import hold
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.models import DeletedData, StoragePool
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud


def test_an_empty_project_says_how_to_begin(at_alice: Client, cloud: Cloud) -> None:
    page = at_alice.get("/").content.decode()
    assert "No instances yet" in page
    assert "Launch the first instance" in page


def test_a_reader_is_not_offered_to_launch(signed_in: SignedIn, bob: Person, cloud: Cloud) -> None:
    page = signed_in(bob).get("/").content.decode()
    assert "Launch the first instance" not in page
    assert "Your role is read-only" in page


def test_the_quota_is_drawn(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    set_limit(alice.project_id, "instances", 2)
    set_limit(alice.project_id, "cores", -1)
    hold(alice.project_id, uuid.uuid4(), {"volumes": 1, "gigabytes": 250, "floatingips": 5})
    cloud.launch(alice.context)
    drawn = {donut.resource: donut for donut in at_alice.get("/").context["donuts"]}
    assert (drawn["instances"].used, drawn["instances"].limit, drawn["instances"].percent) == (1, 2, 50.0)
    assert drawn["cores"].limit is None
    assert (drawn["volumes"].used, drawn["gigabytes"].percent) == (1, 25.0)
    assert drawn["gigabytes"].used_text == "250\N{NO-BREAK SPACE}GiB"
    assert drawn["ram"].used_text == "1\N{NO-BREAK SPACE}GiB"
    assert (drawn["floatingips"].used, drawn["floatingips"].percent) == (5, 10.0)


@pytest.mark.parametrize(("used", "tone"), [(1, "used"), (4, "near"), (5, "full")])
def test_a_quota_that_runs_out_changes_its_colour(
    at_alice: Client, alice: Person, cloud: Cloud, used: int, tone: str
) -> None:
    set_limit(alice.project_id, "instances", 5)
    cloud.launch(alice.context, min_count=used, max_count=used)
    assert at_alice.get("/").context["donuts"][0].tone == tone


def test_data_of_deleted_volumes_is_shown_with_the_storage(at_alice: Client, alice: Person) -> None:
    hold(alice.project_id, uuid.uuid4(), {"gigabytes": 5})
    pool = StoragePool.objects.create(name="local", driver="dir")
    DeletedData.objects.create(pool=pool, data_id=uuid.uuid4(), project_id=alice.project_id, size_gb=3)
    DeletedData.objects.create(pool=pool, data_id=uuid.uuid4(), project_id=uuid.uuid4(), size_gb=4)
    notes = {donut.resource: donut.note for donut in at_alice.get("/").context["donuts"]}
    assert notes.pop("gigabytes").startswith("3 GiB ")
    assert set(notes.values()) == {""}


def test_only_the_projects_own_instances_are_shown(
    at_alice: Client, alice: Person, charlie: Person, cloud: Cloud
) -> None:
    cloud.launch(alice.context, name="mine")
    cloud.launch(charlie.context, name="foreign")
    page = at_alice.get("/").content.decode()
    assert "mine" in page
    assert "foreign" not in page


def test_the_terminal_has_everything_but_the_password(at_alice: Client) -> None:
    terminal = at_alice.get("/").context["terminal"]
    cloud = yaml.safe_load(terminal.clouds_yaml)["clouds"]["novella"]
    assert (cloud["auth"]["username"], cloud["auth"]["project_name"]) == ("alice", "wonderland")
    assert cloud["auth"]["auth_url"].endswith("/identity/v3")
    assert "password" not in cloud["auth"]
    assert "export OS_PROJECT_NAME=wonderland" in terminal.openrc


def test_the_number_of_queries_does_not_grow(
    at_alice: Client, alice: Person, cloud: Cloud, django_assert_num_queries: Callable[..., object]
) -> None:
    cloud.launch(alice.context)
    at_alice.get("/")
    with django_assert_num_queries(12):  # type: ignore[attr-defined]
        at_alice.get("/")
    cloud.launch(alice.context, min_count=4, max_count=4)
    with django_assert_num_queries(12):  # type: ignore[attr-defined]
        at_alice.get("/")
