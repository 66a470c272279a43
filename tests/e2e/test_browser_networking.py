"""A person opens a port by a template, leads a floating IP to an instance in two clicks, and makes a network."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.conftest import press, watch
from tests.support.one_machine import OneMachine

pytestmark = [pytest.mark.deep, pytest.mark.e2e]


@pytest.fixture(name="cloud")
def _cloud(simulated: OneMachine) -> OneMachine:
    """Nothing here needs a guest."""
    return simulated


@pytest.fixture
def instance(cloud: OneMachine) -> str:
    """The path of an instance that is alone on its floating IPs."""
    made = cloud.openstack(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", "--wait"),
        *("reached", "-f", "value", "-c", "id"),
    )
    return f"/instances/{made.strip()}/"


def test_a_rule_by_a_template_and_a_floating_ip_in_two_clicks(
    cloud: OneMachine, signed_in: BrowserContext, instance: str
) -> None:
    shown = watch(signed_in, f"{cloud.url}{instance}network/")
    reach = shown.page.get_by_test_id("reach")
    expect(reach).to_contain_text("not from outside")

    rules = watch(signed_in, f"{cloud.url}/security-groups/")
    rules.page.get_by_role("link", name="default", exact=True).click()
    rules.page.get_by_test_id("template-web").click()
    rules.page.get_by_role("button", name="Add rule").click()
    expect(rules.page.get_by_text("TCP 443 from anywhere (0.0.0.0/0)")).to_be_visible()
    expect(reach).to_contain_text("TCP 443")  # the other page followed by itself

    listing = watch(signed_in, f"{cloud.url}/instances/")
    row = listing.page.locator(f"#instance-{instance.split('/')[2]}")
    expect(row).not_to_contain_text("floating")
    shown.page.get_by_role("link", name="Associate floating IP").click()
    shown.page.get_by_test_id("confirm").click()
    expect(row).to_contain_text("floating")
    expect(reach).to_contain_text("from outside (public) at the floating IP")
    expect(reach).to_contain_text("SSH is open to the world")
    (floating,) = cloud.openstack_json("floating", "ip", "list")
    expect(reach).to_contain_text(str(floating["Floating IP Address"]))
    assert shown.complaints == rules.complaints == listing.complaints == []


def test_the_wizard_makes_a_network_and_keeps_what_was_typed(cloud: OneMachine, signed_in: BrowserContext) -> None:
    wizard = watch(signed_in, f"{cloud.url}/instances/launch/")
    page = wizard.page
    page.locator("#name").fill("typed-before")
    page.locator("summary", has_text="Advanced").click()
    page.locator("summary", has_text="New network").click()
    page.locator("#net_name").fill("backend")
    page.get_by_role("button", name="Create network").click()
    expect(page.locator("#launch-networks label", has_text="backend").locator("input")).to_be_checked()
    expect(page.locator("#launch-networks [role=status]")).to_be_focused()  # the keyboard goes on from there
    expect(page.locator("#quote")).to_contain_text("backend")
    expect(page.locator("#name")).to_have_value("typed-before")
    page.locator("[name=password]").uncheck()  # it would be shown once on a page of its own
    page.get_by_test_id("launch-submit").click()
    page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
    listing = watch(signed_in, f"{cloud.url}/networks/")
    listing.page.get_by_role("link", name="backend", exact=True).click()
    expect(listing.page.locator("#network-ports")).to_contain_text("typed-before")
    expect(listing.page.locator("#network-ports")).to_contain_text("demo-router")
    assert wizard.complaints == listing.complaints == []


def test_networking_by_keyboard_alone(cloud: OneMachine, signed_in: BrowserContext) -> None:
    page = watch(signed_in, f"{cloud.url}/").page
    press(page, "g", "y")
    page.wait_for_url(f"{cloud.url}/security-groups/")
    page.get_by_role("link", name="New security group").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#dialog")).to_be_visible()
    page.locator("#dialog #name").focus()
    page.keyboard.type("by-keys")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="by-keys")).to_be_visible()
    page.get_by_test_id("template-ssh").focus()
    page.keyboard.press("Enter")
    page.get_by_label("SSH").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("Web")).to_be_checked()
    page.get_by_role("button", name="Add rule").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("TCP 80 from anywhere (0.0.0.0/0)")).to_be_visible()


def test_a_page_of_what_was_deleted_elsewhere_says_so_and_offers_nothing_more(
    cloud: OneMachine, signed_in: BrowserContext
) -> None:
    made = cloud.openstack("network", "create", "-f", "value", "-c", "id", "short-lived").strip()
    page = watch(signed_in, f"{cloud.url}/networks/{made}/").page
    expect(page.get_by_role("link", name="Edit")).to_be_visible()
    cloud.openstack("network", "delete", made)
    expect(page.get_by_text("This was deleted.")).to_be_visible()
    for name in ("Edit", "Delete", "Add subnet", "New port"):
        expect(page.get_by_role("link", name=name)).to_be_hidden()
