"""An operator follows moves of an instance through the pages: cold and live, aborted and completed, and a drain."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import Watched, enter, watch
from tests.e2e.sdk_proxies import connect
from tests.support.one_machine import OneMachine, running, wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
NAME = "mover"
FOREVER = "3600"
"""Seconds of a move that ends only because the test ends it."""


@pytest.fixture(scope="module")
def slow() -> Iterator[OneMachine]:
    """A cloud whose simulated hosts do not complete a live migration by themselves."""
    with running(simulate=2, settings={"NOVELLA_AGENT_FAKE_MOVE_SECONDS": FOREVER}) as cloud:
        yield cloud


def launched(cloud: OneMachine) -> str:
    """Launch an instance of the demo project; returns its id."""
    made = cloud.openstack_json(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net"),
        *("--wait", NAME),
    )
    return str(made["id"])


def deleted(cloud: OneMachine) -> None:
    cloud.openstack("server", "delete", "--wait", NAME)


def host_of(cloud: OneMachine, server: str) -> str:
    return str(connect(cloud).compute.get_server(server).compute_host)


def is_in(page: Page, status: str) -> None:
    """The page shows the status, without being loaded again."""
    expect(page.get_by_test_id("instance-status")).to_have_attribute("data-status", status)
    expect(page.get_by_test_id("instance-status")).to_have_attribute("data-task", "")


def choose(page: Page, action: str) -> None:
    page.get_by_test_id("more").click()
    page.get_by_test_id(f"action-{action}").click()


def send(page: Page, label: str) -> None:
    page.locator("#dialog").get_by_role("button", name=label, exact=True).click()
    expect(page.locator("#dialog")).to_be_hidden()


def confirm(page: Page) -> None:
    page.get_by_test_id("confirm").click()
    expect(page.locator("#dialog")).to_be_hidden()


@pytest.fixture
def moved(simulated: OneMachine, chromium: Browser) -> Iterator[Watched]:
    """The page of an instance of another project, as the operator sees it."""
    server = launched(simulated)
    context = enter(simulated, chromium, "admin")
    yield watch(context, f"{simulated.url}/instances/{server}/")
    context.close()
    deleted(simulated)


def test_a_migration_is_confirmed_and_another_one_reverted(simulated: OneMachine, moved: Watched) -> None:
    page = moved.page
    server = page.url.rstrip("/").rpartition("/")[2]
    first = host_of(simulated, server)
    choose(page, "migrate")
    expect(page.locator("#dialog")).to_contain_text("The old host keeps everything until you confirm.")
    expect(page.locator("#dialog")).not_to_contain_text(re.compile(r"\bserver\b"))
    send(page, "Migrate")
    is_in(page, "VERIFY_RESIZE")
    expect(page.get_by_test_id("move")).to_have_count(0)
    second = host_of(simulated, server)
    assert second != first
    page.get_by_test_id("primary-confirm").click()
    confirm(page)
    is_in(page, "ACTIVE")
    choose(page, "migrate")
    send(page, "Migrate")
    is_in(page, "VERIFY_RESIZE")
    choose(page, "revert")
    confirm(page)
    is_in(page, "ACTIVE")
    assert host_of(simulated, server) == second
    page.goto(f"{simulated.url}/migrations/?q={NAME}")
    expect(page.locator("#list-rows")).to_contain_text("Confirmed")
    expect(page.locator("#list-rows")).to_contain_text("Reverted")
    assert moved.complaints == []


@pytest.mark.deep
def test_a_host_is_drained_and_gets_its_instance_back(simulated: OneMachine, moved: Watched) -> None:
    page = moved.page
    server = page.url.rstrip("/").rpartition("/")[2]
    conn = connect(simulated)
    home = host_of(simulated, server)
    host = next(each for each in conn.compute.hypervisors(details=True) if each.name == home)
    page.goto(f"{simulated.url}/hosts/{host.id}/drain/")
    expect(page.locator("main")).to_contain_text(NAME)
    try:
        page.get_by_role("link", name="Start drain").click()
        send(page, "Start drain")
        wait_for("the drain has moved it", lambda: host_of(simulated, server) != home)
        page.goto(f"{simulated.url}/instances/{server}/")
        is_in(page, "ACTIVE")
        page.goto(f"{simulated.url}/hosts/{host.id}/drain/")
        expect(page.locator("#drain")).to_contain_text("Finished.")
        page.goto(f"{simulated.url}/hosts/{host.id}/")
        page.get_by_role("link", name="End maintenance").click()
        confirm(page)
    finally:
        simulated.openstack("compute", "service", "set", "--enable", home, "nova-compute", cloud="admin")
    page.goto(f"{simulated.url}/hosts/{host.id}/drain/")
    page.get_by_role("link", name="Move instances back").click()
    confirm(page)
    wait_for("it is back", lambda: host_of(simulated, server) == home)
    assert moved.complaints == []


@pytest.mark.deep
def test_a_live_migration_is_aborted_and_another_one_completed(slow: OneMachine, chromium: Browser) -> None:
    server = launched(slow)
    home = host_of(slow, server)
    context = enter(slow, chromium, "admin")
    owner = enter(slow, chromium, "demo")
    watched = watch(context, f"{slow.url}/instances/{server}/")
    page, owned = watched.page, owner.new_page()
    owned.goto(f"{slow.url}/instances/{server}/")
    for ended in ("Abort", "Force complete"):
        choose(page, "live-migrate")
        send(page, "Live migrate")
        for seen in (page, owned):
            expect(seen.get_by_test_id("move")).to_contain_text("Moving to other hardware")
        expect(page.get_by_test_id("move")).to_contain_text(re.compile(r"of \d+ MiB"))
        expect(owned.get_by_test_id("move").get_by_role("link")).to_have_count(0)
        operators = context.new_page()
        operators.goto(f"{slow.url}/migrations/?state=open")
        expect(operators.locator("#list-rows")).to_contain_text(NAME)
        operators.close()
        page.get_by_test_id("move").get_by_role("link", name=ended, exact=True).click()
        confirm(page)
        is_in(page, "ACTIVE")
        for seen in (page, owned):
            expect(seen.get_by_test_id("move")).to_have_count(0)
        assert (host_of(slow, server) == home) is (ended == "Abort")
    assert watched.complaints == []
    context.close()
    owner.close()
