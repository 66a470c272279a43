"""Interruptions of a person's work in Chromium: back, reload, ended sessions, no scripts, slow networks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.deep]

Enter = Callable[..., Page]


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


@pytest.fixture
def enter(cloud: OneMachine, chromium: Browser) -> Iterator[Enter]:
    """``enter(java_script_enabled=False)``: a page of a browser of this kind in which the demo user has signed in."""
    contexts: list[BrowserContext] = []

    def make(**settings: object) -> Page:
        contexts.append(chromium.new_context(reduced_motion="reduce", **settings))  # type: ignore[arg-type]
        page = contexts[-1].new_page()
        page.goto(cloud.url)
        sign_in(page, cloud)
        page.wait_for_url(f"{cloud.url}/")
        return page

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def server(cloud: OneMachine) -> Iterator[str]:
    create = ("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net")
    cloud.openstack(*create, "--wait", "interrupted")
    (made,) = [str(each["ID"]) for each in cloud.openstack_json("server", "list", "--name", "interrupted")]
    yield made
    if cloud.openstack_json("server", "list", "--name", "interrupted"):
        cloud.openstack("server", "delete", "--wait", made)


def sign_in(page: Page, cloud: OneMachine) -> None:
    page.get_by_label("User name").fill("demo")
    page.get_by_label("Password").fill(cloud.password())
    page.get_by_role("button", name="Sign in").click()


def watch(page: Page) -> list[str]:
    """Return a list that gets the errors of the page's scripts."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


def test_back_and_reload_leave_each_dialog(enter: Enter, cloud: OneMachine, server: str) -> None:
    page = enter()
    errors = watch(page)
    actions = f"{cloud.url}/instances/{server}/actions/"
    page.goto(actions)
    names = page.locator("main [data-testid^=action-][hx-get]").evaluate_all(
        "(found) => found.map((each) => each.dataset.testid)"
    )
    assert len(names) > 10
    for name in names:
        page.get_by_test_id(name).click()
        expect(page.locator("#dialog")).to_be_visible()
        page.reload()
        expect(page.locator("#dialog")).to_be_hidden()
        page.get_by_test_id(name).click()
        expect(page.locator("#dialog")).to_be_visible()
        page.goto(f"{cloud.url}/instances/")
        page.go_back()
        expect(page).to_have_url(actions)
        expect(page.get_by_test_id(name)).to_be_visible()
        if page.locator("#dialog").is_visible():  # the browser restored the page as it was left
            page.keyboard.press("Escape")
        expect(page.locator("#dialog")).to_be_hidden()
    assert errors == []


def test_a_session_that_ends_in_a_dialog_loses_nothing(enter: Enter, cloud: OneMachine, server: str) -> None:
    page = enter()
    page.goto(f"{cloud.url}/instances/{server}/rename/")
    page.get_by_label("Name").first.fill("typed-before")
    page.context.clear_cookies()
    page.locator("main form button[type=submit]").first.click()
    page.wait_for_url(re.compile("/auth/login/"))
    expect(page.locator("body")).to_contain_text("nothing was changed")
    sign_in(page, cloud)
    page.wait_for_url(f"{cloud.url}/instances/{server}/rename/")
    expect(page.get_by_label("Name").first).to_have_value("typed-before")


def test_a_sign_out_in_one_tab_ends_the_others(enter: Enter, cloud: OneMachine, server: str) -> None:
    page = enter()
    page.goto(f"{cloud.url}/instances/")
    expect(page.locator("#live-mark")).to_have_attribute("data-state", "live")
    second = page.context.new_page()
    second.goto(f"{cloud.url}/networks/")
    second.get_by_role("button", name="Signed in as demo").click()
    second.get_by_role("button", name="Sign out").click()
    page.wait_for_url(re.compile(r"/auth/login/\?next="))
    sign_in(page, cloud)
    page.wait_for_url(f"{cloud.url}/instances/")


def test_the_core_works_without_scripts(enter: Enter, cloud: OneMachine, server: str) -> None:
    page = enter(java_script_enabled=False)
    page.goto(f"{cloud.url}/instances/")
    page.locator("#list-rows input[name=id]").first.check()
    page.locator(".bulk").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Stop interrupted?")
    page.get_by_test_id("confirm").click()
    page.wait_for_url(f"{cloud.url}/instances/**")
    wait_for("the server is stopped", lambda: cloud.openstack_json("server", "show", server)["status"] == "SHUTOFF")
    page.goto(f"{cloud.url}/instances/?q=interrupted")
    expect(page.locator('[data-status="SHUTOFF"]')).to_have_count(1)
    page.locator("#tray").get_by_role("button", name="Undo").click()
    page.wait_for_url(f"{cloud.url}/instances/")
    wait_for("the server is active", lambda: cloud.openstack_json("server", "show", server)["status"] == "ACTIVE")


def test_two_clicks_on_a_slow_network_are_one_action(enter: Enter, cloud: OneMachine, server: str) -> None:
    page = enter()
    page.goto(f"{cloud.url}/instances/?q=interrupted")
    page.locator("#list-rows input[name=id]").first.click()
    sent: list[str] = []

    def note(request: Request) -> None:
        if "/bulk/" in request.url:
            sent.append(request.method)

    page.on("request", note)
    slow = {"offline": False, "latency": 1500, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", slow)
    page.locator(".bulk").get_by_role("button", name="Stop").dblclick()
    expect(page.locator('#list-rows [data-status="SHUTOFF"]')).to_have_count(1)
    assert sent == ["POST"]


def test_a_dialog_of_what_was_deleted_elsewhere_changes_nothing(enter: Enter, cloud: OneMachine, server: str) -> None:
    page = enter()
    page.goto(f"{cloud.url}/instances/{server}/")
    expect(page.locator("#live-mark")).to_have_attribute("data-state", "live")
    page.get_by_test_id("more").click()
    page.locator("#instance-more").get_by_test_id("action-rename").click()
    page.locator("#dialog").get_by_label("Name").first.fill("too-late")
    cloud.openstack("server", "delete", "--wait", server)
    expect(page.locator("#instance-head")).to_contain_text("was deleted")
    expect(page.locator("#dialog").get_by_label("Name").first).to_have_value("too-late")
    page.locator("#dialog").get_by_test_id("confirm").click()
    expect(page.locator("body")).to_contain_text("Nothing was changed")
    assert cloud.openstack_json("server", "list", "--name", "too-late") == []
