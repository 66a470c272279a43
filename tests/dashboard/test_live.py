"""What sockets send: the pages' own partials."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from unittest import mock

import pytest
from django.test import Client
from django.urls import get_resolver

from portal.dashboard.frame.pages import Page
from portal.dashboard.instances.detail.tabs import TABS
from portal.dashboard.live import PAGES, LivePage, render
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Instance
from provisioning.events import selectors as events
from provisioning.events.selectors import LoggedEvent
from tests.support.cast import Person
from tests.support.clouds import Cloud


def log_of(person: Person, after: int = 0) -> list[LoggedEvent]:
    return events.since([f"project:{person.project_id}"], after)


def order_of(html: str) -> list[str]:
    """Return the ids of the rows that a live list has, in order."""
    result: list[str] = re.findall(r'data-live-order="([^"]*)"', html)
    return result[0].split()


def test_the_list_gets_the_rows_it_shows(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context, name="web")
    html = render("instances", log_of(alice), alice.context)
    (row,) = re.findall(r"<tr .*?</tr>", html, re.DOTALL)
    assert row.startswith(f'<tr id="instance-{instance.id}" ')
    assert order_of(html) == [f"instance-{instance.id}"]
    assert row.replace(' data-live-say="web: Choosing a host"', "") in at_alice.get("/instances/").content.decode()


def test_rows_have_a_table_of_their_own(alice: Person, cloud: Cloud) -> None:
    """After rows without a table, a browser closes each form of the rest of the frame before its buttons."""
    cloud.launch(alice.context)
    html = render("instances", log_of(alice), alice.context)
    assert html.startswith('<table><tbody id="list-rows"')
    assert html.count("<tbody") == html.count("</tbody></table>") == 1


def test_many_events_make_one_row_with_the_newest_state(alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context)
    cloud.run()
    log = log_of(alice)
    html = render("instances", log, alice.context)
    assert len(log) > 3
    assert html.count("<tr") == 1
    assert 'data-status="ACTIVE"' in html


def test_the_order_is_that_of_the_list(alice: Person, cloud: Cloud) -> None:
    first, second = (cloud.launch(alice.context, name=name) for name in ("first", "second"))
    ids = [f"instance-{first.id}", f"instance-{second.id}"]
    assert order_of(render("instances", log_of(alice), alice.context)) == ids[::-1]
    assert order_of(render("instances?sort=name", log_of(alice), alice.context)) == ids


def test_only_changed_rows_are_sent(alice: Person, cloud: Cloud) -> None:
    first = cloud.launch(alice.context, name="first")
    after = log_of(alice)[-1].id
    second = cloud.launch(alice.context, name="second")
    html = render("instances", log_of(alice, after), alice.context)
    assert order_of(html) == [f"instance-{second.id}", f"instance-{first.id}"]
    assert ">second<" in html
    assert ">first<" not in html


def test_what_was_deleted_is_no_longer_in_the_order(alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context)
    delete(alice.context, instance.id)
    html = render("instances", log_of(alice), alice.context)
    assert order_of(html) == []
    assert "<tr" not in html


def test_the_instances_page_gets_its_own_parts(alice: Person, cloud: Cloud) -> None:
    instance, other = (cloud.launch(alice.context, name=name) for name in ("one", "another"))
    html = render(f"instance/{instance.id}", log_of(alice), alice.context)
    for part in ("head", "fault", "timeline", "connect", "facts", "actions"):
        assert f'id="instance-{part}"' in html
    assert "another" not in html
    assert render(f"instance/{other.id}", log_of(alice)[:1], alice.context) == ""


def test_every_tab_gets_the_head_and_its_own_parts_alone(alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context)
    cloud.run()
    own, other = log_of(alice), [log_of(alice)[0]._replace(payload={"id": str(uuid.uuid4()), "name": "x"})]
    kinds = {kind: [other[0]._replace(kind=kind, payload={})] for kind in ("network", "volume")}
    for tab in TABS:
        page = tab.live_page(instance)
        html = render(page, own, alice.context)
        assert 'id="instance-head"' in html
        assert ('id="instance-timeline"' in html) is (tab.name in {"", "activity"})
        assert render(page, other, alice.context) == ""
        for kind, happened in kinds.items():
            html = render(page, happened, alice.context)
            assert bool(html) is (kind in tab.follows), (tab.name, kind)
            assert 'id="instance-head"' not in html
    assert render(f"instance/{instance.id}/nonsense", own, alice.context) == ""


def test_the_instances_page_is_notified_of_its_end(alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context, name="web")
    delete(alice.context, instance.id)
    html = render(f"instance/{instance.id}", log_of(alice), alice.context)
    assert 'data-status="DELETED"' in html
    assert "web was deleted" in html
    assert '<div id="instance-lease"></div>' in html, "it cannot be kept any longer"


def test_an_end_while_the_page_is_drawn_is_an_end_too(alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context, name="web")
    log = log_of(alice)

    def ends(*_: object) -> None:
        delete(alice.context, instance.id)
        error = "Instance web could not be found."
        raise NotFoundError(error)

    with mock.patch("portal.dashboard.instances.detail.contents.compute.timeline_for", ends):
        html = render(f"instance/{instance.id}", log, alice.context)
    assert "web was deleted" in html


def test_the_overview_gets_quota_and_newest(alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context, name="web")
    html = render("overview", log_of(alice), alice.context)
    assert 'id="quota"' in html
    assert 'id="recent"' in html
    assert ">web<" in html
    for kind in ("network", "volume"):
        assert 'id="quota"' in render("overview", [LoggedEvent(1, "", kind, {})], alice.context)


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


def every_page(base: type[Page] = Page) -> set[type[Page]]:
    get_resolver().url_patterns  # noqa: B018 - loads the modules of all pages
    return {base, *(result for each in base.__subclasses__() for result in every_page(each))}


def test_every_live_page_is_registered() -> None:
    names = {name for page in every_page() for name in (page.live_page, getattr(page, "live_kind", "")) if name}
    names |= {each.key for page in every_page() if (each := getattr(page, "records", None)) and each.kinds}
    assert names | {"instance", "tray"} == PAGES.keys(), (
        "a page that is not in portal.dashboard.live.PAGES stands still"
    )


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_live_page_is_drawn_for_what_it_follows_alone(alice: Person, cloud: Cloud, name: str) -> None:
    """An event of a kind that a page follows reaches what draws it; another one does not."""
    cloud.launch(alice.context, name="web")
    instance, drawn = Instance.objects.get(), list[tuple[str, int]]()

    def draw(rest: str, given: Sequence[LoggedEvent], _: RequestContext) -> str:
        drawn.append((rest, len(given)))
        return "<p></p>"

    page = LivePage(PAGES[name].kinds, draw)
    with mock.patch.dict(PAGES, {name: page}):
        for kind in ("instance", "image", "catalogue", "network", "volume", "host", "batch", "migration", "drain"):
            event = log_of(alice)[0]._replace(kind=kind, payload={"id": str(instance.id), "name": "web"})
            html = render(f"{name}/x", [event], alice.context)
            assert bool(html) is (kind in PAGES[name].kinds), kind
    assert drawn == [("x", 1)] * len(PAGES[name].kinds)
    about = {"id": str(uuid.uuid4()), "name": "x", "entry": "x", "instance": str(uuid.uuid4())}
    event = log_of(alice)[0]._replace(kind=min(page.kinds), payload=about)
    rest = "" if name.endswith("s") or name in {"overview", "topology", "cloud"} else f"/{uuid.uuid4()}"
    assert isinstance(render(name + rest, [event], alice.context), str), "its templates are there"
