"""One action on many: the question, its answer, the tray and the results."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from django.test import Client

from portal.dashboard.batches.selection import LISTS
from portal.dashboard.live import render
from portal.dashboard.words.plain import SENTENCES
from provisioning.batches.kinds import KINDS
from provisioning.batches.models import Batch, BatchItem
from provisioning.compute.models import BlockDevice, Instance
from provisioning.events import selectors as events
from provisioning.hosts.models import Host
from provisioning.images import services as image_services
from provisioning.images.models import Image
from provisioning.network import services as network
from provisioning.volumes.models import Volume
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud, state_of
from tests.support.standing import standing

Settings = Any
HTMX = {"HX-Request": "true", "HX-Current-URL": "http://testserver/instances/?q=web"}
STOP, DELETE = "/bulk/instances/stop/", "/bulk/instances/delete/"


@pytest.fixture
@standing
def three(alice: Person, cloud: Cloud) -> list[Instance]:
    made = [cloud.launch(alice.context, name=name) for name in ("web-1", "web-2", "db-1")]
    cloud.run()
    return made


def asked(client: Client, path: str, records: list[Any], **query: str) -> str:
    picked = {"selection": "ids", "id": [str(getattr(each, "pk", each)) for each in records], **query}
    return client.get(path, picked, headers=HTMX).content.decode()


def answer_to(question: str, **more: str) -> dict[str, str]:
    """Return the fields of the question as a browser sends them."""
    result = re.findall(r'<input type="(?:hidden|text)" name="(\w+)" value="([^"]*)"', question)
    return {name: value.replace("&quot;", '"') for name, value in result} | more


def tasks(servers: list[Instance]) -> list[str | None]:
    return [state_of(each)[1] for each in servers]


def test_the_question_names_all_and_the_answer_returns_to_the_list(
    at_alice: Client, three: list[Instance], cloud: Cloud
) -> None:
    question = asked(at_alice, STOP, three[:2])
    assert "Stop 2 instances?" in question
    assert "<bdi>web-1</bdi>" in question
    assert "<bdi>web-2</bdi>" in question
    answer = at_alice.post(STOP, answer_to(question))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/instances/?q=web")
    assert tasks(three) == [None] * 3
    page = at_alice.get("/networks/").content.decode()
    assert 'data-state="running"' in page
    assert 'data-live-page="networks"' in page
    assert 'data-live-page="tray"' in at_alice.get("/flavors/").content.decode()
    cloud.run()
    assert [state_of(each)[0] for each in three] == ["stopped", "stopped", "active"]
    page = at_alice.get("/networks/").content.decode()
    assert 'data-state="done"' in page
    assert "2 instances" in page
    assert 'data-live-page="tray"' not in at_alice.get("/flavors/").content.decode()


def press(client: Client, path: str, records: list[Instance], **query: str) -> Any:
    """Press the button of an action on many, with scripts."""
    picked = {"selection": "ids", "id": [str(each.pk) for each in records], **query}
    return client.post(path, picked, headers=HTMX)


def test_an_action_that_can_be_undone_starts_without_a_question_and_is_undone(
    at_alice: Client, three: list[Instance], cloud: Cloud
) -> None:
    listed = at_alice.get("/instances/").content.decode()
    assert f'hx-post="{STOP}"' in listed
    assert f'hx-get="{DELETE}"' in listed
    answer = press(at_alice, STOP, three[:2])
    assert answer.headers["HX-Redirect"] == "/instances/?q=web"
    batch = Batch.objects.get()
    undo = f"/batches/{batch.id}/undo/"
    assert undo not in at_alice.get("/networks/").content.decode(), "it is still running"
    assert at_alice.post(undo).status_code == 303
    assert Batch.objects.count() == 1
    cloud.run()
    assert [state_of(each)[0] for each in three] == ["stopped", "stopped", "active"]
    assert undo in at_alice.get("/networks/").content.decode()
    assert at_alice.post(undo, headers=HTMX).headers["HX-Redirect"] == "/instances/?q=web"
    at_alice.post(undo)
    cloud.run()
    assert [state_of(each)[0] for each in three] == ["active"] * 3
    assert list(Batch.objects.exclude(pk=batch.pk).values_list("action", "done")) == [("start", 2)]
    assert undo not in at_alice.get("/networks/").content.decode()


@pytest.mark.parametrize("why", ["all", "many", "impossible", "dangerous", "no script"])
def test_the_rest_is_asked_first(
    at_alice: Client, three: list[Instance], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    path, picked = STOP, {"selection": "ids", "id": [str(each.pk) for each in three]}
    if why == "all":
        picked["selection"] = "all"
    elif why == "many":
        monkeypatch.setattr("portal.dashboard.batches.views.NAMED", 2)
    elif why == "impossible":
        path = "/bulk/instances/start/"
    elif why == "dangerous":
        path = DELETE
    answer = at_alice.post(path, picked, headers={} if why == "no script" else HTMX)
    assert answer.status_code == 200
    assert "3 instances?" in answer.content.decode()
    assert not Batch.objects.exists()


def test_only_changed_resources_are_changed_back(
    at_alice: Client, signed_in: SignedIn, charlie: Person, three: list[Instance], cloud: Cloud
) -> None:
    press(at_alice, "/bulk/instances/lock/", three[:1])
    cloud.run()
    at_alice.post("/bulk/instances/lock/", answer_to(asked(at_alice, "/bulk/instances/lock/", three[:2])))
    cloud.run()
    last = Batch.objects.latest("created_at")
    assert (last.done, last.unsuccessful) == (1, 1)
    assert signed_in(charlie).post(f"/batches/{last.id}/undo/").status_code == 404
    at_alice.post(f"/batches/{last.id}/undo/")
    cloud.run()
    assert [Instance.objects.get(pk=each.pk).locked for each in three] == [True, False, False]


def test_each_resource_that_is_changed_back_counts_as_a_change(
    at_alice: Client, three: list[Instance], cloud: Cloud, settings: Settings
) -> None:
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, "writes": (5, 3600)}
    press(at_alice, STOP, three)
    cloud.run()
    undo = f"/batches/{Batch.objects.get().id}/undo/"
    assert "Try again in" in at_alice.post(undo, follow=True).content.decode()
    assert Batch.objects.count() == 1
    settings.RATE_LIMITS = {}
    at_alice.post(undo)
    assert Batch.objects.count() == 2


def test_actions_without_a_reverse_are_not_undone(at_alice: Client, three: list[Instance], cloud: Cloud) -> None:
    at_alice.post("/bulk/instances/tag/", answer_to(asked(at_alice, "/bulk/instances/tag/", three), tag="lab"))
    cloud.run()
    undo = f"/batches/{Batch.objects.get().id}/undo/"
    assert undo not in at_alice.get("/networks/").content.decode()
    assert at_alice.post(undo).status_code == 303
    assert Batch.objects.count() == 1


def test_a_reverse_reverses() -> None:
    result = [(kind, each) for kind in KINDS.values() for each in kind.actions if each.undone_by]
    assert result
    for kind, each in result:
        back = kind.action(each.undone_by)
        assert back is not None
        assert back.undone_by == each.name
        assert not each.danger
        assert each.argument is None


def test_a_selection_can_be_sent_as_a_form(at_alice: Client, three: list[Instance]) -> None:
    page = at_alice.post(STOP, {"selection": "ids", "id": [three[0].id], "next": "/instances/?q=w"})
    assert page.status_code == 200
    assert "Stop web-1?" in page.content.decode()
    assert 'value="/instances/?q=w"' in page.content.decode()
    assert not Batch.objects.exists()


def test_ten_are_named_and_the_rest_is_counted(
    at_alice: Client, three: list[Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.dashboard.batches.views.NAMED", 2)
    question = asked(at_alice, STOP, three)
    assert question.count("<li>") == 2
    assert "and 1 more" in question


def test_cancel_has_the_focus_before_something_is_lost(at_alice: Client, three: list[Instance]) -> None:
    focused = re.compile(r"<(a|button|input)[^>]* autofocus")
    assert focused.findall(asked(at_alice, DELETE, three)) == ["a"]
    assert focused.findall(asked(at_alice, STOP, three)) == ["button"]
    assert focused.findall(asked(at_alice, "/bulk/instances/tag/", three)) == ["input"]


def test_the_volumes_that_go_with_the_instances_are_counted(at_alice: Client, three: list[Instance]) -> None:
    assert "volume" not in asked(at_alice, DELETE, three)
    for each, deleted in zip(three, (True, True, False), strict=True):
        disk = {"source_type": "blank", "destination_type": "volume", "delete_on_termination": deleted}
        BlockDevice.objects.create(instance=each, **disk)
    assert "2 volumes are deleted with them. 1 volume is kept." in asked(at_alice, DELETE, three)
    Instance.objects.filter(pk=three[0].pk).update(locked=True)
    assert "1 volume is deleted with them. 1 volume is kept." in asked(at_alice, DELETE, three)


def test_instances_that_cannot_be_changed_are_counted_with_the_reasons(at_alice: Client, three: list[Instance]) -> None:
    """A failed launch left an instance without a host: Stop, which is possible in error, is not possible for it."""
    assert "None of them allows it now: 3 active." in (question := asked(at_alice, "/bulk/instances/start/", three))
    assert 'data-testid="confirm"' not in question
    assert "cannot be changed" not in asked(at_alice, STOP, three)
    rows = Instance.objects.filter(pk=three[0].pk)
    rows.update(vm_state="error", host=None)
    Instance.objects.filter(pk=three[1].pk).update(vm_state="stopped")
    question = asked(at_alice, STOP, three)
    assert "Stop 1 of 3 instances?" in question
    assert "2 cannot be changed: " in question
    assert re.search(r"<bdi>web-1</bdi> <span[^>]*>not on a host<", question)
    assert re.search(r"<bdi>web-2</bdi> <span[^>]*>stopped<", question)
    assert "<li><bdi>db-1</bdi></li>" in question
    assert "It is not possible now: stopped." in asked(at_alice, STOP, three[1:2])
    rows.update(vm_state="active", task_state="rebooting")
    assert "1 busy" in asked(at_alice, STOP, three)
    Instance.objects.filter(pk=three[2].pk).update(locked=True)
    assert "1 locked" in asked(at_alice, DELETE, three)
    assert "1 not locked" in asked(at_alice, "/bulk/instances/unlock/", three[1:])
    Host.objects.update(last_seen_at=None)
    assert "1 on a host that does not answer" in asked(at_alice, "/bulk/instances/start/", three)


def test_networks_routers_groups_and_volumes_in_use_are_counted(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    own = alice.project_id
    used, free = (network.create_network(own, name) for name in ("used", "free"))
    subnet = network.create_subnet(used, "10.66.0.0/24")
    routers = [network.create_connected_router(own, each) for each in ([subnet], [])]
    groups = [network.ensure_default_security_group(own), network.create_security_group(own, "front")]
    expected = {
        "networks": ([used, free], "1 cannot be changed: 1 in use."),
        "routers": (routers, "1 cannot be changed: 1 connected to networks."),
        "security_groups": (groups, "1 cannot be changed: 1 a default group."),
    }
    for kind, (records, sentence) in expected.items():
        question = asked(at_alice, f"/bulk/{kind}/delete/", records)
        assert sentence in question, kind
        assert "Delete 1 of 2 " in question
    network.create_port(own, free, groups=[groups[1]])
    assert "1 in use" in asked(at_alice, "/bulk/security_groups/delete/", groups)
    volumes = [
        Volume.objects.create(project_id=own, user_id=alice.user_id, size_gb=1, name=status, status=status)
        for status in ("available", "in-use", "error")
    ]
    assert "1 cannot be changed: 1 in use." in asked(at_alice, "/bulk/volumes/delete/", volumes)
    assert "1 cannot be changed: 1 error." in asked(at_alice, "/bulk/volumes/snapshot/", volumes)


def test_all_that_match_are_found_by_the_query(at_alice: Client, three: list[Instance]) -> None:
    question = at_alice.get(STOP, {"selection": "all", "q": "web"}, headers=HTMX).content.decode()
    assert set(json.loads(answer_to(question)["chosen"])) == {str(each.id) for each in three[:2]}


def test_every_list_with_actions_can_select_all_that_match() -> None:
    assert LISTS.keys() == KINDS.keys() - {"servers"}, "the servers of a host have no list of their own"
    assert all(each.bulk for each in LISTS.values())


def test_a_wrong_argument_is_refused_at_its_field_and_nothing_is_lost(at_alice: Client, three: list[Instance]) -> None:
    tag = "/bulk/instances/tag/"
    sent = answer_to(asked(at_alice, tag, three), tag="a,b")
    answer = at_alice.post(tag, sent)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'value="a,b"' in page
    assert 'aria-invalid="true"' in page
    assert "Add tag: 3 instances?" in page
    again = answer_to(page, tag="lab")
    assert json.loads(again["chosen"]) == json.loads(sent["chosen"])
    assert at_alice.post(tag, again).status_code == 303
    assert Batch.objects.get().total == 3


def test_only_an_argument_that_can_be_empty_is_called_optional(at_alice: Client, three: list[Instance]) -> None:
    assert 'class="optional"' not in asked(at_alice, "/bulk/instances/tag/", three)
    assert 'class="optional"' in asked(at_alice, "/bulk/instances/image/", three)


@pytest.mark.parametrize("chosen", ["nonsense", '{"a": 1}', "[1]", "[]", "[" * 100_000, json.dumps(["x"] * 1001)])
def test_a_strange_selection_starts_nothing(at_alice: Client, three: list[Instance], chosen: str) -> None:
    sent = answer_to(asked(at_alice, STOP, three), chosen=chosen)
    assert at_alice.post(STOP, sent).status_code == 422
    assert not Batch.objects.exists()


def test_a_form_that_is_sent_twice_is_one_batch(at_alice: Client, three: list[Instance]) -> None:
    sent = answer_to(asked(at_alice, STOP, three))
    for _ in range(2):
        assert at_alice.post(STOP, sent).status_code == 303
    assert Batch.objects.count() == 1


def test_foreign_resources_are_never_named(signed_in: SignedIn, three: list[Instance], charlie: Person) -> None:
    client = signed_in(charlie)
    answer = client.get(STOP, {"id": [str(each.id) for each in three]}, headers=HTMX)
    assert b"web-1" not in answer.content
    sent = {"confirmed": "1", "key": str(uuid.uuid4()), "chosen": json.dumps([str(three[0].id)]), "permanent": "[]"}
    assert client.post(STOP, sent).status_code == 303
    assert list(BatchItem.objects.values_list("state", flat=True)) == ["refused"]


def test_readers_and_unknown_actions(signed_in: SignedIn, at_alice: Client, bob: Person, three: list[Instance]) -> None:
    assert signed_in(bob).get(STOP, {"id": str(three[0].id)}).status_code == 403
    for path in ("/bulk/instances/explode/", "/bulk/flavors/delete/"):
        assert at_alice.get(path).status_code == 404
        assert at_alice.post(path).status_code == 404


def test_nothing_selected_says_so(at_alice: Client, cloud: Cloud) -> None:
    assert "Nothing was selected." in at_alice.get(DELETE, follow=True).content.decode()


def test_many_changes_count_as_many(at_alice: Client, three: list[Instance], settings: Settings) -> None:
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, "writes": (4, 60)}
    question = asked(at_alice, STOP, three)
    assert at_alice.post(STOP, answer_to(question)).status_code == 303
    at_alice.post(STOP, answer_to(question, key=str(uuid.uuid4())))
    assert Batch.objects.count() == 1


def test_kept_instances_are_deleted_for_good_after_a_question_that_says_so(
    at_alice: Client, three: list[Instance], cloud: Cloud, settings: Settings
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    for status, warning, state in (
        ("", "can be restored for 60 min", "soft-delete"),
        ("SOFT_DELETED", "cannot be undone", "deleted"),
    ):
        question = asked(at_alice, DELETE, three[:1], status=status)
        assert warning in question
        at_alice.post(DELETE, answer_to(question))
        cloud.run()
        assert state_of(three[0]) == (state, None)


@pytest.fixture
def refused(at_alice: Client, alice: Person, cloud: Cloud) -> Batch:
    """A batch with a security group that is in use."""
    net = network.create_network(alice.project_id, "net")
    network.create_subnet(net, "10.9.0.0/24")
    group = network.create_security_group(alice.project_id, "<b>front\u202e")
    network.create_port(alice.project_id, net, groups=[group])
    question = asked(at_alice, "/bulk/security_groups/delete/", [group])
    at_alice.post("/bulk/security_groups/delete/", answer_to(question))
    cloud.run()
    return Batch.objects.get()


def test_a_refusal_is_reported_by_name_until_it_is_dismissed(at_alice: Client, refused: Batch) -> None:
    page = at_alice.get("/").content.decode()
    assert "<bdi>&lt;b&gt;front\u202e</bdi></a>: " in page
    assert f'href="/security-groups/{refused.items.get().resource_id}/"' in page
    answer = at_alice.post(f"/batches/{refused.id}/dismiss/", {"next": "/networks/"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/networks/")
    assert "tray-row" not in at_alice.get("/").content.decode()
    assert "front" in at_alice.get(f"/batches/{refused.id}/").content.decode()
    assert "Delete" in at_alice.get("/batches/").content.decode()


def test_batches_are_their_users(signed_in: SignedIn, bob: Person, charlie: Person, refused: Batch) -> None:
    for person in (bob, charlie):
        client = signed_in(person)
        assert client.get(f"/batches/{refused.id}/").status_code == 404
        assert client.post(f"/batches/{refused.id}/dismiss/").status_code == 404
        assert "front" not in client.get("/").content.decode()
        assert "front" not in client.get("/batches/").content.decode()
        assert "front" not in render("tray", events.since([events.of_user(refused.user_id)], 0), person.context)


def test_the_socket_sends_the_tray_and_the_results_to_their_user(alice: Person, refused: Batch) -> None:
    woken = events.since([events.of_user(alice.user_id)], 0)
    for page in ("tray", f"batch/{refused.id}"):
        assert "front" in render(page, woken, alice.context)
        assert "front" not in render(page, woken, alice.context.without_person())


@pytest.fixture
@standing
def images(alice: Person, cloud: Cloud) -> list[Image]:
    return [image_services.create(alice.context, name=name) for name in ("one", "two")]


def stored(images: list[Image]) -> Any:
    return Image.objects.filter(pk__in=[each.pk for each in images], deleted_at=None)


@pytest.mark.parametrize(("action", "expected"), [("protect", True), ("unprotect", False)])
def test_images_are_protected_together(
    at_alice: Client, cloud: Cloud, images: list[Image], action: str, *, expected: bool
) -> None:
    stored(images).update(protected=not expected)
    path = f"/bulk/images/{action}/"
    assert "cannot be changed" not in asked(at_alice, path, images)
    assert at_alice.post(path, answer_to(asked(at_alice, path, images))).status_code == 303
    cloud.run()
    assert set(stored(images).values_list("protected", flat=True)) == {expected}


def test_protected_images_are_counted_before_they_are_deleted_and_are_kept(
    at_alice: Client, cloud: Cloud, images: list[Image]
) -> None:
    Image.objects.filter(pk=images[0].pk).update(protected=True)
    assert ">protected<" in at_alice.get("/images/").content.decode()
    question = asked(at_alice, "/bulk/images/delete/", images)
    assert "1 cannot be changed: 1 protected." in question
    at_alice.post("/bulk/images/delete/", answer_to(question))
    cloud.run()
    assert list(stored(images)) == images[:1]
    assert BatchItem.objects.get(state="refused").name == "one"


def test_only_visibilities_that_the_caller_may_set_are_offered_and_set(
    at_alice: Client, signed_in: SignedIn, operator: Person, cloud: Cloud, images: list[Image]
) -> None:
    path = "/bulk/images/visibility/"
    question = asked(at_alice, path, images)
    assert re.findall('name="visibility" value="([a-z]+)"', question) == ["private", "shared", "community"]
    for requested, outcomes in (("secret", ["422"]), ("public", ["refused"] * 2), ("community", ["done"] * 2)):
        answer = at_alice.post(path, answer_to(question, visibility=requested, key=str(uuid.uuid4())))
        if answer.status_code == 303:
            cloud.run()
            assert list(BatchItem.objects.values_list("state", flat=True)) == outcomes
            assert {each.visibility for each in stored(images)} == {"shared" if "refused" in outcomes else requested}
            Batch.objects.all().delete()
        else:
            assert [str(answer.status_code)] == outcomes
            assert 'aria-invalid="true"' in answer.content.decode()
    own = image_services.create(operator.context, name="three")
    assert 'value="public"' in asked(signed_in(operator), path, [own])


def test_every_sentence_is_found_by_the_name_of_its_error() -> None:
    assert len({error.__name__ for error in SENTENCES}) == len(SENTENCES)
