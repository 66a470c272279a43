"""One action on many instances: the question names all of them, the answer tells each outcome."""

from __future__ import annotations

import re
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from provisioning.compute.models import Instance
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud, state_of
from tests.support.standing import standing

Settings = Any
HTMX = {"HX-Request": "true"}
SCRIPT = {"Accept": "application/json"}


@pytest.fixture
@standing
def three(alice: Person, cloud: Cloud) -> list[Instance]:
    made = [cloud.launch(alice.context, name=name) for name in ("web-1", "web-2", "db-1")]
    cloud.run()
    return made


def answer_to(client: Client, action: str, servers: list[Instance], **query: str) -> dict[str, Any]:
    """Return the hidden fields of the question: each name's values, and when it was asked."""
    question = client.get(
        f"/instances/all/{action}/", {"id": [str(each.id) for each in servers], **query}, headers=HTMX
    )
    fields: dict[str, Any] = {"ids": [], "force": []}
    for name, value in re.findall(
        r'<input type="hidden" name="(ids|force|asked)" value="([^"]*)">', question.content.decode()
    ):
        if name == "asked":
            fields[name] = value
        else:
            fields[name].append(value)
    return fields


def tasks(servers: list[Instance]) -> list[str | None]:
    return [state_of(each)[1] for each in servers]


@pytest.mark.parametrize(
    ("action", "task"), [("stop", "powering-off"), ("reboot", "rebooting"), ("delete", "deleting")]
)
def test_an_action_is_begun_on_all_that_were_picked(
    at_alice: Client, three: list[Instance], action: str, task: str
) -> None:
    ids = {"ids": [each.id for each in three[:2]]}
    question = at_alice.get(f"/instances/all/{action}/", {"id": ids["ids"]}, headers=HTMX).content.decode()
    assert f"{action.capitalize()} 2 instances?" in question
    assert "<li><bdi>web-1</bdi></li>" in question
    assert "<li><bdi>web-2</bdi></li>" in question
    assert tasks(three) == [None, None, None]
    answer = at_alice.post(f"/instances/all/{action}/", {"ids": [*ids["ids"], "nonsense"]})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/instances/")
    assert tasks(three) == [task, task, None]


def test_the_page_stays_where_it_is(at_alice: Client, three: list[Instance]) -> None:
    sent = {"ids": [three[0].id], "next": "/instances/?q=web&status=ACTIVE"}
    assert at_alice.post("/instances/all/stop/", sent).headers["Location"] == sent["next"]


def test_all_that_match_the_filter_are_named(at_alice: Client, three: list[Instance]) -> None:
    asked = {"selection": "all", "q": "web", "status": "ACTIVE", "id": [three[2].id]}
    question = at_alice.get("/instances/all/stop/", asked, headers=HTMX).content.decode()
    assert "Stop 2 instances?" in question
    assert [str(each.id) in question for each in three] == [True, True, False]


def test_more_than_a_page_can_be_chosen(
    at_alice: Client, three: list[Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'name="selection"' not in at_alice.get("/instances/").content.decode()
    monkeypatch.setattr("portal.dashboard.lists.asked.SIZE", 2)
    page = at_alice.get("/instances/").content.decode()
    assert 'name="selection" value="all" data-total="3"' in page
    question = at_alice.get("/instances/all/delete/", {"selection": "all"}, headers=HTMX).content.decode()
    assert "Delete 3 instances?" in question


def test_each_refusal_is_told_with_its_name(at_alice: Client, three: list[Instance], cloud: Cloud) -> None:
    at_alice.post(f"/instances/{three[0].id}/stop/")
    cloud.run()
    ids = {"ids": [each.id for each in three]}
    assert "1 of them do" in at_alice.get("/instances/all/stop/", {"id": ids["ids"]}, headers=HTMX).content.decode()
    answer = at_alice.post("/instances/all/stop/", ids, headers=SCRIPT).json()
    assert sorted(answer["done"]) == ["db-1", "web-2"]
    assert [each["name"] for each in answer["refused"]] == ["web-1"]
    page = at_alice.post("/instances/all/stop/", ids, follow=True).content.decode()
    assert page.count("toast-note error") == 3


def test_a_part_that_is_sent_again_was_done(at_alice: Client, three: list[Instance]) -> None:
    """A page that is left does not hear the answer; the next one asks again."""
    sent = {"ids": [three[0].id]}
    asked = answer_to(at_alice, "stop", three[:1])["asked"]
    at_alice.post("/instances/all/stop/", sent, headers=SCRIPT)
    assert at_alice.post("/instances/all/stop/", sent, headers=SCRIPT).json()["done"] == []
    again = at_alice.post("/instances/all/stop/", {**sent, "again": asked}, headers=SCRIPT).json()
    assert again == {"done": ["web-1"], "refused": []}


def test_a_part_that_is_sent_again_while_it_is_under_way_is_done_once(
    at_alice: Client, three: list[Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request of the page before goes on when its page is left: both find the instance as it was."""
    sent = {"ids": [three[0].id]}
    asked = answer_to(at_alice, "stop", three[:1])["asked"]
    at_alice.post("/instances/all/stop/", sent, headers=SCRIPT)
    monkeypatch.setattr("portal.dashboard.instances.bulk.can", lambda *_: True)
    again = at_alice.post("/instances/all/stop/", {**sent, "again": asked}, headers=SCRIPT).json()
    assert again == {"done": ["web-1"], "refused": []}
    assert tasks(three) == ["powering-off", None, None]


def test_who_is_too_quick_is_told_when_to_go_on(at_alice: Client, three: list[Instance], settings: Settings) -> None:
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, "writes": (1, 60)}
    for status in (200, 429):
        answer = at_alice.post("/instances/all/stop/", {"ids": [three[0].id]}, headers=SCRIPT)
        assert answer.status_code == status
    assert int(answer.headers["Retry-After"]) > 0


def test_only_some_actions_are_for_many(at_alice: Client, three: list[Instance]) -> None:
    assert at_alice.get("/instances/all/shelve/").status_code == 404
    assert at_alice.get("/instances/all/explode/").status_code == 404


def test_foreign_instances_are_never_among_them(signed_in: SignedIn, three: list[Instance], charlie: Person) -> None:
    client = signed_in(charlie)
    assert client.post("/instances/all/stop/", {"ids": [three[0].id]}, headers=SCRIPT).json()["done"] == []
    assert tasks(three) == [None, None, None]


def test_kept_ones_are_deleted_for_good_together(
    at_alice: Client, three: list[Instance], cloud: Cloud, settings: Settings
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    picked = {"id": [three[0].id]}
    for status, warning, state in (
        ("", "can be restored for 60 min", "soft-delete"),
        ("SOFT_DELETED", "cannot be undone", "deleted"),
    ):
        shown = at_alice.get("/instances/all/delete/", {**picked, "status": status}, headers=HTMX)
        assert warning in shown.content.decode()
        at_alice.post("/instances/all/delete/", answer_to(at_alice, "delete", three[:1], status=status))
        cloud.run()
        assert state_of(three[0]) == (state, None)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("path", ["/instances/all/delete/", "/instances/{}/delete/"])
def test_a_delete_that_is_sent_twice_deletes_nothing_for_good(
    at_alice: Client, three: list[Instance], cloud: Cloud, settings: Settings, path: str, ended: bool
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    sent = answer_to(at_alice, "delete", three[:1])
    for again in ({}, {"again": sent["asked"]}):
        at_alice.post(path.format(three[0].id), {**sent, **again}, headers=SCRIPT)
        if ended:
            cloud.run()
    cloud.run()
    assert state_of(three[0]) == ("soft-delete", None)


def test_a_delete_that_is_sent_twice_at_once_deletes_nothing_for_good(
    at_alice: Client, three: list[Instance], cloud: Cloud, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both requests read the instance before the first one begins."""
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    sent, read = answer_to(at_alice, "delete", three[:1]), Instance.objects.get(id=three[0].id)
    at_alice.post("/instances/all/delete/", sent, headers=SCRIPT)
    monkeypatch.setattr("portal.dashboard.instances.begin.compute", SimpleNamespace(instance_for=lambda *_: read))
    monkeypatch.setattr("portal.dashboard.instances.bulk.InstancesBulk._was_begun", lambda *_: False)
    at_alice.post("/instances/all/delete/", sent, headers=SCRIPT)
    cloud.run()
    assert state_of(three[0]) == ("soft-delete", None)


def test_the_question_about_one_that_is_kept_is_whether_to_delete_it_for_good(
    at_alice: Client, three: list[Instance], cloud: Cloud, settings: Settings
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    path = f"/instances/{three[0].id}/delete/"
    field = f'name="force" value="{three[0].id}"'
    assert field not in at_alice.get(path, headers=HTMX).content.decode()
    at_alice.post(path)
    cloud.run()
    assert field in at_alice.get(path, headers=HTMX).content.decode()
    at_alice.post(path, {"force": three[0].id})
    cloud.run()
    assert state_of(three[0]) == ("deleted", None)


def test_a_reboot_that_is_sent_again_is_done_once(at_alice: Client, three: list[Instance], cloud: Cloud) -> None:
    sent = answer_to(at_alice, "reboot", three[:1])
    for again, task in (({}, "rebooting"), ({"again": sent["asked"]}, None)):
        answer = at_alice.post("/instances/all/reboot/", {**sent, **again}, headers=SCRIPT).json()
        assert answer == {"done": ["web-1"], "refused": []}
        assert tasks(three)[0] == task
        cloud.run()
    later = answer_to(at_alice, "reboot", three[:1])
    at_alice.post("/instances/all/reboot/", {**later, "again": later["asked"]}, headers=SCRIPT)
    assert tasks(three)[0] == "rebooting"


def test_ids_that_are_not_found_are_refused(at_alice: Client, three: list[Instance], cloud: Cloud) -> None:
    gone = {"ids": [str(uuid.uuid4())]}
    for action in ("stop", "delete"):
        answer = at_alice.post(f"/instances/all/{action}/", gone, headers=SCRIPT).json()
        assert answer["refused"] == [{"name": gone["ids"][0], "message": "It was deleted, or is not in this project."}]
    sent = answer_to(at_alice, "delete", three[:1])
    at_alice.post("/instances/all/delete/", sent, headers=SCRIPT)
    cloud.run()
    again = at_alice.post("/instances/all/delete/", {**sent, "again": sent["asked"]}, headers=SCRIPT).json()
    assert (len(again["done"]), again["refused"]) == (1, [])


def test_the_rest_of_an_action_is_for_the_project_in_which_it_was_begun(
    at_alice: Client, three: list[Instance]
) -> None:
    sent = {**answer_to(at_alice, "stop", three), "project": str(uuid.uuid4())}
    assert len(at_alice.post("/instances/all/stop/", sent, headers=SCRIPT).json()["refused"]) == 3
    assert tasks(three) == [None, None, None]


def test_nothing_picked_says_so(at_alice: Client, cloud: Cloud) -> None:
    assert "Nothing was selected." in at_alice.get("/instances/all/delete/", follow=True).content.decode()
