"""What sockets send: the pages' own partials."""

from __future__ import annotations

import uuid

from django.test import Client

from portal.dashboard.live import render
from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Instance
from provisioning.events import selectors as events
from provisioning.events.selectors import LoggedEvent
from tests.support.cast import Person
from tests.support.clouds import Cloud


def log_of(person: Person, after: int = 0) -> list[LoggedEvent]:
    return events.since([f"project:{person.project_id}"], after)


def test_the_list_gets_the_rows_it_shows(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context, name="web")
    html = render("instances", log_of(alice), alice.context)
    row = html.strip()
    assert row.startswith(f'<tr id="instance-{instance.id}" data-live-container="instance-rows"')
    assert "".join(row.split()) in "".join(at_alice.get("/instances/").content.decode().split())


def test_many_events_make_one_row_with_the_newest_state(alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context)
    cloud.run()
    log = log_of(alice)
    html = render("instances", log, alice.context)
    assert len(log) > 3
    assert html.count("<tr") == 1
    assert 'data-status="ACTIVE"' in html


def test_new_rows_come_oldest_first(alice: Person, cloud: Cloud) -> None:
    for name in ("first", "second"):
        cloud.launch(alice.context, name=name)
    html = render("instances", log_of(alice), alice.context)
    assert html.index(">first<") < html.index(">second<")


def test_what_was_deleted_is_taken_away(alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context)
    delete(alice.context, instance.id)
    html = render("instances", log_of(alice), alice.context)
    assert html == f'<tr id="instance-{instance.id}" data-live-remove></tr>'


def test_the_instances_page_gets_its_own_parts(alice: Person, cloud: Cloud) -> None:
    instance, other = (cloud.launch(alice.context, name=name) for name in ("one", "another"))
    html = render(f"instance/{instance.id}", log_of(alice), alice.context)
    for part in ("head", "fault", "timeline", "connect", "facts", "actions"):
        assert f'id="instance-{part}"' in html
    assert "another" not in html
    assert render(f"instance/{other.id}", log_of(alice)[:1], alice.context) == ""


def test_the_instances_page_is_told_of_its_end(alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context, name="web")
    delete(alice.context, instance.id)
    html = render(f"instance/{instance.id}", log_of(alice), alice.context)
    assert 'data-status="DELETED"' in html
    assert "web was deleted" in html


def test_the_overview_gets_quota_and_newest(alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context, name="web")
    html = render("overview", log_of(alice), alice.context)
    assert 'id="quota"' in html
    assert 'id="recent"' in html
    assert ">web<" in html


def test_other_events_and_other_pages_change_nothing(alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context)
    log = log_of(alice)
    assert render("images", log, alice.context) == ""
    assert render("instance/nonsense", log, alice.context) == ""
    assert render("instances", [LoggedEvent(1, "x", "other", {"id": str(uuid.uuid4())})], alice.context) == ""
    assert render("instances", [], alice.context) == ""


def test_foreign_instances_are_not_rendered(alice: Person, charlie: Person, cloud: Cloud) -> None:
    cloud.launch(charlie.context, name="secret")
    html = render("instances", log_of(charlie), alice.context)
    assert "secret" not in html
    assert "secret" not in render("overview", log_of(charlie), alice.context)
    foreign = Instance.objects.get()
    assert "timeline" not in render(f"instance/{foreign.id}", log_of(charlie), alice.context)
