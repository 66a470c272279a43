"""The dashboard without a mouse: shortcuts, the wizard, questions and answers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.conftest import watch
from tests.support.one_machine import OneMachine

pytestmark = [pytest.mark.e2e]


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


def test_launch_and_delete_without_a_mouse(cloud: OneMachine, signed_in: BrowserContext) -> None:
    watched = watch(signed_in, cloud.url)
    page = watched.page
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url("**/instances/")
    page.keyboard.press("c")
    page.wait_for_url("**/instances/launch/")

    expect(page.locator("#name")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("no-mouse")
    page.keyboard.press("Tab")
    expect(page.locator("input[name=image]:checked")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("input[name=flavor]:checked")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#quote")).to_contain_text("m1.micro")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#quote")).to_contain_text("m1.nano")
    page.locator("[data-testid=launch-submit]").focus()
    page.keyboard.press("Enter")

    page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
    expect(page.locator("[data-testid=instance-status][data-status=ACTIVE]").first).to_be_visible()
    page.get_by_test_id("action-delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("confirm")).to_be_focused()
    page.keyboard.press("Enter")
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
