"""The list of instances, and what is done to them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from provisioning.compute.actions.registry import with_buttons
from provisioning.compute.models import Instance
from tests.dashboard.conftest import SignedIn
from tests.support.actions import begin, way_to
from tests.support.cast import Person
from tests.support.clouds import Cloud, state_of
from tests.support.standing import standing
from tests.support.tables import each_row

HTMX = {"HX-Request": "true"}


def offered(client: Client, instance: Instance) -> list[str]:
    """Return the actions in the menu of an instance's row."""
    menu = client.get(f"/instances/{instance.id}/actions/").context["menu"]
    return [item.entry.name or item.entry.key for items in menu.possible for item in items]


def names(client: Client, query: str = "") -> list[str]:
    return [row.instance.name for row in client.get(f"/instances/{query}").context["rows"]]


@pytest.fixture
@standing
def web(cloud: Cloud, alice: Person) -> Instance:
    """A running instance of alice's."""
    instance = cloud.launch(alice.context, name="web")
    cloud.run()
    return instance


def test_newest_first_and_only_the_projects_own(at_alice: Client, alice: Person, charlie: Person, cloud: Cloud) -> None:
    for name in ("first", "second"):
        cloud.launch(alice.context, name=name)
    cloud.launch(charlie.context, name="foreign")
    assert names(at_alice) == ["second", "first"]


def test_a_name_is_never_html(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context, name="<script>alert(1)</script>")
    page = at_alice.get("/instances/").content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.slow
def test_found_by_name_status_and_address(at_alice: Client, alice: Person, web: Instance, cloud: Cloud) -> None:
    cloud.launch(alice.context, name="waiting")
    address = at_alice.get("/instances/").context["rows"][1].addresses[0].address
    assert names(at_alice, "?q=WEB") == ["web"]
    assert names(at_alice, "?status=BUILD") == ["waiting"]
    assert names(at_alice, "?status=ACTIVE") == ["web"]
    assert names(at_alice, f"?q={address}") == ["web"]
    assert names(at_alice, "?q=10.20.") == ["web"]
    assert names(at_alice, "?q=10.99.") == []
    assert "Nothing matches" in at_alice.get("/instances/?q=no-such").content.decode()


def test_progress_is_shown_while_it_is_built(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context)
    row = at_alice.get("/instances/").context["rows"][0]
    assert row.task == "Choosing a host"
    assert [step.state for step in row.steps] == ["waiting"] * len(row.steps)
    assert len(row.steps) == 12


def test_actions_are_those_of_the_state(at_alice: Client, web: Instance, cloud: Cloud) -> None:
    assert offered(at_alice, web) == [
        *("stop", "reboot", "reset", "pause", "suspend", "resize", "rebuild", "image", "backup"),
        *("attach_volume", "interface", "security_groups", "console_log", "rescue", "crash-dump"),
        *("rename", "tags", "metadata", "lock", "shelve", "delete"),
    ]
    at_alice.post(f"/instances/{web.id}/stop/")
    always = ["security_groups", "console_log", "rename", "tags"]
    assert offered(at_alice, web) == [*always, "lock", "delete"]
    cloud.run()
    assert offered(at_alice, web) == [
        *("start", "reset", "resize", "rebuild", "image", "backup"),
        *("attach_volume", "interface", "security_groups", "console_log", "rescue"),
        *("rename", "tags", "metadata", "lock", "shelve", "delete"),
    ]
    at_alice.post(f"/instances/{web.id}/lock/")
    unchanged = ["image", "backup"]  # as in the API, a lock prevents no image
    assert offered(at_alice, web) == [*unchanged, *always, "unlock"]


@pytest.mark.parametrize(
    ("there", "during", "back"), [("pause", "Pausing", "unpause"), ("suspend", "Saving its memory", "resume")]
)
def test_there_and_back_again(
    at_alice: Client, web: Instance, cloud: Cloud, there: str, during: str, back: str
) -> None:
    assert during in at_alice.post(f"/instances/{web.id}/{there}/", follow=True).content.decode()
    cloud.run()
    verbs = offered(at_alice, web)
    assert back in verbs
    assert "stop" not in verbs
    at_alice.post(f"/instances/{web.id}/{back}/")
    cloud.run()
    assert state_of(web) == ("active", None)


@pytest.mark.slow
def test_a_delete_that_can_be_taken_back_says_so(
    at_alice: Client, web: Instance, cloud: Cloud, settings: Settings
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    assert "It can be restored for 60 min" in at_alice.get(f"/instances/{web.id}/delete/").content.decode()
    at_alice.post(f"/instances/{web.id}/delete/")
    cloud.run()
    assert state_of(web) == ("soft-delete", None)
    assert names(at_alice) == []
    assert names(at_alice, "?status=SOFT_DELETED") == ["web"]
    assert 'href="?status=SOFT_DELETED"' in at_alice.get("/instances/").content.decode()
    assert "This cannot be undone" in at_alice.get(f"/instances/{web.id}/delete/").content.decode()
    at_alice.post(f"/instances/{web.id}/restore/")
    cloud.run()
    assert state_of(web) == ("active", None)


def test_a_reader_is_offered_nothing_and_allowed_nothing(signed_in: SignedIn, bob: Person, web: Instance) -> None:
    client = signed_in(bob)
    assert offered(client, web) == ["security_groups"]
    assert client.post(f"/instances/{web.id}/stop/").status_code == 403
    assert client.post("/bulk/instances/delete/", {"id": [web.id]}).status_code == 403
    assert state_of(web) == ("active", None)


@each_row(
    ("verb", "state"),
    [
        ("stop", ("active", "powering-off")),
        ("reboot", ("active", "rebooting")),
        ("reset", ("active", "rebooting_hard")),
        ("delete", ("active", "deleting")),
    ],
)
def test_a_verb_asks_first_and_then_does_it(at_alice: Client, web: Instance, verb: str, state: tuple[str, str]) -> None:
    dialog = at_alice.get(f"/instances/{web.id}/{verb}/", headers=HTMX).content.decode()
    assert dialog.lstrip().startswith("<form")
    assert f'action="/instances/{web.id}/{verb}/"' in dialog
    assert "<html" in at_alice.get(f"/instances/{web.id}/{verb}/").content.decode()
    assert state_of(web) == ("active", None)
    assert at_alice.post(f"/instances/{web.id}/{verb}/").status_code == 303
    assert state_of(web) == state


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["confirm", "revert", "unrescue"])
def test_a_verb_is_sent_from_the_state_that_it_needs(
    at_alice: Client, alice: Person, web: Instance, cloud: Cloud, verb: str
) -> None:
    cloud.add_host("host-2")
    action = next(each for each in with_buttons() if each.button and each.button.name == verb)
    for step in way_to(action):
        begin(step, alice.context, cloud, web)
        cloud.run()
    assert verb in offered(at_alice, web)
    assert at_alice.post(f"/instances/{web.id}/{verb}/").status_code == 303
    assert state_of(web)[1] == action.task
    cloud.run()
    assert state_of(web) == ("active", None)
    assert verb not in offered(at_alice, web)


def test_an_action_that_is_too_late_says_so(at_alice: Client, web: Instance) -> None:
    at_alice.post(f"/instances/{web.id}/stop/")
    page = at_alice.post(f"/instances/{web.id}/stop/", follow=True).content.decode()
    assert "does not allow this in its current state: it is " in page


@pytest.mark.parametrize("method", ["get", "post"])
def test_another_projects_instance_does_not_exist(
    signed_in: SignedIn, charlie: Person, web: Instance, method: str
) -> None:
    client = signed_in(charlie)
    for path in ("", "stop/", "delete/", "console.log"):
        answer = getattr(client, method)(f"/instances/{web.id}/{path}")
        unknown = getattr(client, method)(f"/instances/{uuid.uuid4()}/{path}")
        assert answer.status_code == unknown.status_code
        assert answer.status_code in {404, 405}
    client.post("/bulk/instances/delete/", {"id": [web.id]})
    assert state_of(web) == ("active", None)


def test_a_question_about_a_deleted_instance_changes_nothing_and_says_so(at_alice: Client, web: Instance) -> None:
    web.delete()
    for method, shown in ((at_alice.post, True), (at_alice.get, False)):
        answer = method(f"/instances/{web.id or uuid.uuid4()}/stop/")
        assert answer.status_code == 404
        assert (b"Nothing was changed" in answer.content) is shown


def test_an_unknown_verb_is_not_there(at_alice: Client, web: Instance) -> None:
    assert at_alice.post(f"/instances/{web.id}/explode/").status_code == 404


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow(
    at_alice: Client, alice: Person, cloud: Cloud, django_assert_num_queries: Callable[..., object]
) -> None:
    cloud.launch(alice.context, name="one")
    cloud.run()
    cloud.launch(alice.context, name="building")
    at_alice.get("/instances/")
    with django_assert_num_queries(13):  # type: ignore[attr-defined]
        at_alice.get("/instances/")
    cloud.launch(alice.context, name="more", min_count=5, max_count=5)
    with django_assert_num_queries(13):  # type: ignore[attr-defined]
        at_alice.get("/instances/")


def test_instances_are_counted_without_reading_their_rows(at_alice: Client, web: Instance) -> None:
    with CaptureQueriesContext(connection) as sent:
        at_alice.get("/instances/")
    [count] = [each["sql"] for each in sent if re.search(r'COUNT\(\*\).* FROM "compute_instance"', each["sql"])]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {count}")
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
    assert "USING COVERING INDEX instance_kept_of_project" in plan


def test_what_found_no_host_can_only_be_deleted(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    for host in cloud.agents.values():
        host.host.delete()
    cloud.launch(alice.context, name="nowhere")
    cloud.run()
    [row] = at_alice.get("/instances/").context["rows"]
    assert row.api_status == "ERROR"
    assert set(offered(at_alice, row.instance)) == {"security_groups", "rename", "lock", "delete"}


def test_the_menu_of_a_row_is_fetched_when_it_is_opened(at_alice: Client, web: Instance) -> None:
    page = at_alice.get("/instances/").content.decode()
    assert f'href="/instances/{web.id}/actions/"' in page
    assert f"/instances/{web.id}/stop/" not in page
    menu = at_alice.get(f"/instances/{web.id}/actions/", headers=HTMX).content.decode()
    assert f'hx-get="/instances/{web.id}/stop/"' in menu
    assert "<html" not in menu


def test_without_scripts_the_menu_is_a_page_of_links(at_alice: Client, web: Instance) -> None:
    page = at_alice.get(f"/instances/{web.id}/actions/").content.decode()
    assert "<html" in page
    assert f'href="/instances/{web.id}/stop/"' in page


def test_a_row_of_the_list_is_small(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context, min_count=1, max_count=1)
    one = len(at_alice.get("/instances/").content)
    cloud.launch(alice.context, name="more", min_count=4, max_count=4)
    assert (len(at_alice.get("/instances/").content) - one) / 4 < 2500  # with the steps of a launch
