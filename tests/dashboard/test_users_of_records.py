"""Whose server, whose volume: the column, the filter, the search and the actions on all of one user."""

from __future__ import annotations

import csv
import io
import re
import uuid
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.dashboard.instances.lists.listing import INSTANCES
from portal.dashboard.lists.live import render
from provisioning.compute.models import Instance
from provisioning.events.selectors import LoggedEvent
from provisioning.identity.models import User
from provisioning.identity.selectors.lookups import user_labels
from provisioning.volumes.models import Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.support.cast import Person, make_domain, make_user
from tests.support.clouds import Cloud, state_of
from tests.support.standing import standing

HEADING = '<th scope="col">User</th>'
DELETE = "/bulk/instances/delete/"
EVERY = "column=name&column=user"


@pytest.fixture
@standing
def servers(cloud: Cloud, alice: Person, bob: Person) -> list[Instance]:
    """Two servers of bob's and one of alice's, in one project."""
    made = [cloud.launch(alice.context, name=name) for name in ("web-1", "web-2", "db")]
    cloud.run()
    Instance.objects.filter(id__in=[each.id for each in made[:2]]).update(user_id=bob.user_id)
    return made


def names(client: Client, query: str) -> list[str]:
    return sorted(row.instance.name for row in client.get(f"/instances/{query}").context["rows"])


def cells(page: str) -> list[str]:
    """Return the users in a page or a live update."""
    return re.findall(r'<a class="muted" href="[^"]*\?user=[^"]*"[^>]*><bdi>([^<]*)</bdi></a>', page)


def test_the_column_is_shown_where_another_user_has_servers(
    at_alice: Client, servers: list[Instance], alice: Person, bob: Person
) -> None:
    page = at_alice.get("/instances/").content.decode()
    assert HEADING in page
    assert sorted(cells(page)) == ["alice", "bob", "bob"]
    Instance.objects.update(user_id=alice.user_id)
    page = at_alice.get("/instances/").content.decode()
    assert HEADING not in page
    assert cells(page) == []
    assert HEADING in at_alice.get(f"/instances/?{EVERY}").content.decode()


def test_names_are_one_query_and_only_where_they_are_shown(at_alice: Client, servers: list[Instance]) -> None:
    def asked(query: str) -> int:
        with CaptureQueriesContext(connection) as sent:
            at_alice.get(f"/instances/?{query}")
        return sum('FROM "identity_user"' in each["sql"] and "IN (" in each["sql"] for each in sent)

    assert asked("column=name") == 0
    assert asked(EVERY) == 1


def test_the_filter_offers_the_users_of_the_project_and_narrows(
    at_alice: Client, servers: list[Instance], alice: Person, bob: Person, charlie: Person
) -> None:
    dialog = at_alice.get("/instances/?show=filters").content.decode()
    assert f'value="{bob.user_id}"' in dialog
    assert f'value="{alice.user_id}"' in dialog
    assert str(charlie.user_id) not in dialog
    assert names(at_alice, f"?user={bob.user_id}") == ["web-1", "web-2"]
    assert names(at_alice, f"?user={charlie.user_id}") == []
    assert "Remove User: bob" in at_alice.get(f"/instances/?user={bob.user_id}").content.decode()


def test_the_search_finds_other_users_and_not_all_of_the_callers_own(at_alice: Client, servers: list[Instance]) -> None:
    assert names(at_alice, "?q=BO") == ["web-1", "web-2"]
    assert names(at_alice, "?q=alice") == []


def test_the_file_has_names(at_alice: Client, servers: list[Instance]) -> None:
    answer = at_alice.get("/instances/?format=csv")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {(row["Name"], row["User"]) for row in rows} == {("web-1", "bob"), ("web-2", "bob"), ("db", "alice")}


def test_live_rows_have_the_columns_of_the_page(
    at_alice: Client, servers: list[Instance], alice: Person, bob: Person
) -> None:
    def frame(name: str) -> str:
        event = LoggedEvent(1, "", "instance", {"id": str(servers[0].id), "name": servers[0].name})
        return render(INSTANCES, name.partition("?")[2], [event], alice.context)

    shown = at_alice.get("/instances/").context["shell"]["live_page"]
    assert cells(frame(shown)) == ["bob"]
    Instance.objects.update(user_id=alice.user_id)
    alone = at_alice.get("/instances/").context["shell"]["live_page"]
    Instance.objects.update(user_id=bob.user_id)
    assert cells(frame(alone)) == [], "the page that is open has no such column"
    assert frame(shown).count("<td") == frame(alone).count("<td") + 1


def test_a_deleted_user_is_named_as_such(at_alice: Client, servers: list[Instance], bob: Person, alice: Person) -> None:
    User.objects.filter(id=bob.user_id).delete()
    assert sorted(cells(at_alice.get("/instances/").content.decode())) == ["alice", "deleted user", "deleted user"]
    assert f"deleted user ({str(bob.user_id)[:8]})" in at_alice.get("/instances/?show=filters").content.decode()
    assert names(at_alice, f"?user={bob.user_id}") == ["web-1", "web-2"]


def test_the_page_of_a_server_names_its_user(at_alice: Client, servers: list[Instance]) -> None:
    for server, name in ((servers[0], "bob"), (servers[2], "alice")):
        page = at_alice.get(f"/instances/{server.id}/").content.decode()
        assert re.search(rf"<dt>User</dt>\s*<dd><bdi>{name}</bdi></dd>", page)


def test_all_of_one_user_are_deleted_together(
    at_alice: Client, servers: list[Instance], bob: Person, cloud: Cloud
) -> None:
    question = at_alice.get(DELETE, {"selection": "all", "user": str(bob.user_id)}, headers={"HX-Request": "true"})
    fields = re.findall(r'<input type="(?:hidden|text)" name="(\w+)" value="([^"]*)"', question.content.decode())
    at_alice.post(DELETE, {name: unescape(value) for name, value in fields})
    cloud.run()
    assert [state_of(each)[0] for each in servers] == ["deleted", "deleted", "active"]


def test_volumes_have_the_same_column_and_filter(at_alice: Client, cloud: Cloud, bob: Person, alice: Person) -> None:
    volume = Create.begin(alice.context, VolumeRequest(size_gb=1, name="data"))
    page = at_alice.get("/volumes/").content.decode()
    assert HEADING not in page
    Volume.objects.filter(id=volume.id).update(user_id=bob.user_id)
    assert cells(at_alice.get("/volumes/").content.decode()) == ["bob"]
    assert len(at_alice.get(f"/volumes/?user={bob.user_id}").context["rows"]) == 1
    assert len(at_alice.get(f"/volumes/?user={alice.user_id}").context["rows"]) == 0
    assert len(at_alice.get("/volumes/?q=bo").context["rows"]) == 1
    assert re.search(r"<dt>User</dt>\s*<dd><bdi>bob</bdi>", at_alice.get(f"/volumes/{volume.id}/").content.decode())


def test_labels_of_users_differ(alice: Person) -> None:
    other = make_user("alice", domain=make_domain("school", "School"))
    gone = uuid.UUID(int=5)
    assert user_labels([gone, other.id, alice.user_id]) == [
        (alice.user_id, "alice (Default)"),
        (other.id, "alice (School)"),
        (gone, "deleted user (00000000)"),
    ]
