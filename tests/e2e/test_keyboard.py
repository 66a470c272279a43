"""The dashboard without a mouse: shortcuts, the wizard, questions and answers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.e2e.conftest import press, watch
from tests.support.one_machine import OneMachine

pytestmark = [pytest.mark.deep, pytest.mark.e2e]
MOST_STOPS = 150
"""Presses of Tab after which there is no way to a place."""


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


def test_launch_and_delete_without_a_mouse(cloud: OneMachine, signed_in: BrowserContext) -> None:
    watched = watch(signed_in, cloud.url)
    page = watched.page
    page.keyboard.press("?")
    expect(page.locator("#shortcuts-title")).to_be_focused()
    expect(page.locator("#shortcuts-title")).to_be_in_viewport()
    expect(page.locator("#shortcuts dd", has_text="Go to Instances")).to_have_count(1)
    page.keyboard.press("Escape")
    press(page, "g", "i")
    page.wait_for_url("**/instances/")
    page.keyboard.press("c")
    page.wait_for_url("**/instances/launch/")

    expect(page.locator("#name")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("no-mouse")
    page.keyboard.press("Tab")
    expect(page.locator("input[name=image]:checked")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("#images summary")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("input[name=flavor]:checked")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#quote")).to_contain_text("m1.micro")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#quote")).to_contain_text("m1.nano")
    page.locator("[name=password]").uncheck()  # it would be shown once on a page of its own
    page.locator("[data-testid=launch-submit]").focus()
    page.keyboard.press("Enter")

    page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
    expect(page.locator("[data-testid=instance-status][data-status=ACTIVE]").first).to_be_visible()
    page.get_by_test_id("more").focus()
    page.keyboard.press("Enter")
    page.get_by_test_id("action-delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Cancel", exact=True)).to_be_focused()  # a hasty Enter deletes nothing
    choose(page, page.get_by_test_id("confirm"))
    page.wait_for_url("**/instances/")
    expect(page.get_by_role("link", name="no-mouse")).to_have_count(0)
    assert watched.complaints == []


def test_what_is_wrong_takes_the_cursor_to_its_field(cloud: OneMachine, signed_in: BrowserContext) -> None:
    page = watch(signed_in, f"{cloud.url}/instances/launch/").page
    page.locator("#name").fill("")
    page.keyboard.press("Enter")
    expect(page.locator("#name_error")).to_be_visible()
    expect(page.locator("#name")).to_be_focused()
    expect(page.locator("#name")).to_have_attribute("aria-invalid", "true")


def walk_to(page: Page, locator: Locator) -> None:
    """Press Tab until the focus is there, and can be seen to be."""
    expect(locator).to_be_visible()
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if locator.evaluate("each => each === document.activeElement && each.matches(':focus-visible')"):
            return
    raise AssertionError(f"Tab does not lead to {locator}")


def choose(page: Page, locator: Locator) -> None:
    """Walk to a link or a button and press Enter."""
    walk_to(page, locator)
    page.keyboard.press("Enter")


def section(page: Page, name: str) -> Locator:
    """Return a link of the sidebar."""
    return page.get_by_role("navigation", name="Main", exact=True).get_by_role("link", name=name, exact=True)


def test_launch_onto_a_network_from_the_map_by_tab_and_enter(cloud: OneMachine, signed_in: BrowserContext) -> None:
    cloud.openstack("network", "create", "walked-to")  # not the one that the wizard proposes by itself
    cloud.openstack("subnet", "create", "--network", "walked-to", "--subnet-range", "10.91.0.0/24", "walked-to")
    watched = watch(signed_in, cloud.url)
    page = watched.page
    choose(page, section(page, "Network map"))
    page.wait_for_url("**/network-map/")
    choose(page, page.get_by_role("link", name="walked-to: open the network walked-to", exact=True))
    page.wait_for_url(re.compile(r"/networks/[0-9a-f-]{36}/"))
    network = page.url
    choose(page, page.get_by_role("link", name="Launch here", exact=True))
    page.wait_for_url(re.compile(r"/instances/launch/\?network="))
    expect(page.locator("#name")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("by-tab")
    expect(page.locator("#launch-networks input:checked")).to_have_count(1)
    expect(page.locator("#launch-networks label", has_text="walked-to").locator("input")).to_be_checked()
    page.locator("[name=password]").uncheck()  # it would be shown once on a page of its own
    choose(page, page.get_by_test_id("launch-submit"))
    page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
    expect(page.locator("[data-testid=instance-status][data-status=ACTIVE]").first).to_be_visible()
    page.goto(network)
    expect(page.locator("#network-ports")).to_contain_text("by-tab")
    assert watched.complaints == []


def test_a_network_a_router_and_a_floating_ip_by_keyboard_alone(cloud: OneMachine, signed_in: BrowserContext) -> None:
    watched = watch(signed_in, cloud.url)
    page = watched.page
    choose(page, section(page, "Networks"))
    page.wait_for_url("**/networks/")
    choose(page, page.get_by_role("link", name="New network", exact=True))
    page.wait_for_url("**/networks/create/")
    walk_to(page, page.get_by_label("Name"))
    page.keyboard.type("typed-net")
    walk_to(page, page.get_by_label("IPv4 range"))
    page.keyboard.press("Control+A")
    page.keyboard.type("10.92.0.0/24")
    walk_to(page, page.get_by_label("Router", exact=True))
    page.keyboard.press("End")  # none
    choose(page, page.get_by_role("button", name="Create network"))
    expect(page.get_by_role("heading", name="typed-net", exact=True)).to_be_visible()
    expect(page.locator("#network-subnets")).to_contain_text("10.92.0.0/24")

    choose(page, section(page, "Routers"))
    page.wait_for_url("**/routers/")
    choose(page, page.get_by_role("link", name="New router", exact=True))
    page.wait_for_url("**/routers/create/")
    walk_to(page, page.get_by_label("Name"))
    page.keyboard.type("typed-router")
    walk_to(page, page.get_by_label("External network"))
    page.keyboard.type("public")
    choose(page, page.get_by_role("button", name="Create router"))
    expect(page.get_by_role("heading", name="typed-router", exact=True)).to_be_visible()
    expect(page.locator("#router-gateway")).to_contain_text("public")

    choose(page, section(page, "Floating IPs"))
    page.wait_for_url("**/floating-ips/")
    before = {each["Floating IP Address"] for each in cloud.openstack_json("floating", "ip", "list")}
    choose(page, page.get_by_role("link", name="Allocate floating IP", exact=True))
    expect(page.locator("#dialog")).to_be_visible()
    choose(page, page.locator("#dialog").get_by_role("button", name="Allocate"))
    expect(page.locator("#dialog")).to_be_hidden()
    [made] = {each["Floating IP Address"] for each in cloud.openstack_json("floating", "ip", "list")} - before
    expect(page.locator("#main")).to_contain_text(str(made))
    assert watched.complaints == []
