"""The shortest ways of a person through the dashboard, counted in clicks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import Key
from tests.e2e.sdk_proxies import connect
from tests.support.one_machine import OneMachine

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.deep,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
COUNT = "addEventListener('pointerdown', (event) => event.isTrusted && window.clickedHere(), true)"


class Clicks:
    """A page of a new browser, and how often somebody has clicked on it."""

    def __init__(self, page: Page) -> None:
        self.page, self.number = page, 0
        page.expose_function("clickedHere", self._click)
        page.add_init_script(COUNT)

    def _click(self) -> None:
        self.number += 1


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> Iterator[OneMachine]:
    """The simulated cloud, which keeps neither what the journeys create nor their quota."""
    yield simulated
    conn = connect(simulated, name="demo")
    for server in conn.list_servers():
        conn.delete_server(server.id, wait=True)
    conn.delete_unattached_floating_ips()
    for volume in conn.list_volumes():
        conn.delete_volume(volume.id, wait=True)
    conn.delete_keypair("first-key")
    connect(simulated).delete_compute_quotas("demo")


@pytest.fixture
def clicks(cloud: OneMachine, chromium: Browser) -> Iterator[Clicks]:
    """The sign-in page with the name and password typed."""
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
    result = Clicks(context.new_page())
    result.page.goto(cloud.url)
    result.page.get_by_label("User name").fill("demo")
    result.page.get_by_label("Password").fill(cloud.password())
    yield result
    context.close()


def test_from_sign_in_to_a_server_with_ssh_a_web_port_and_a_disk(cloud: OneMachine, clicks: Clicks, key: Key) -> None:
    """Eight clicks at most, and one form."""
    page = clicks.page
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{cloud.url}/")
    page.locator("#main").get_by_role("link", name="Launch").first.click()
    page.wait_for_url("**/instances/launch/")
    page.locator("#name").fill("first")
    if not page.locator("#key_new_name").is_visible():  # open for a person without a key
        page.get_by_text("New key pair").click()
    page.locator("#key_new_name").fill("first-key")
    page.locator("#key_new_public").fill(key.public.read_text())
    page.get_by_role("button", name="Add key pair").click()
    expect(page.locator("input[name=key_name][value=first-key]")).to_be_checked()
    page.locator("[name=reachable]").click()
    page.locator("[name=openings][value=web]").click()
    page.get_by_text("Data disks and end").click()
    page.get_by_label("Size of disk 1 in GiB").fill("1")
    page.get_by_label("Directory of disk 1").fill("/srv/data")
    page.get_by_test_id("launch-submit").click()
    page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
    expect(page.locator("[data-testid=instance-status][data-status=ACTIVE]").first).to_be_visible()

    shown = cloud.openstack_json("server", "show", "first")
    (addresses,) = dict(shown["addresses"]).values()
    expect(page.locator("#instance-connect")).to_contain_text(f"@{addresses[1]}")
    ports = {
        str(rule["Port Range"])
        for group in shown["security_groups"]
        for rule in cloud.openstack_json("security", "group", "rule", "list", "--ingress", str(group["name"]))
    }
    assert {"22:22", "80:80"} <= ports
    assert len(shown["volumes_attached"]) == 1
    assert clicks.number <= 8


def test_five_of_forty_are_stopped(cloud: OneMachine, clicks: Clicks) -> None:
    """Six clicks in the list at most: each of the five, and the action; *Undo* is one more."""
    cloud.openstack("quota", "set", "--instances", "60", "--cores", "80", "--ram", "81920", "demo", cloud="admin")
    create = ("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net")
    cloud.openstack(*create, "--min", "40", "--max", "40", "--wait", "forty")
    page = clicks.page
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{cloud.url}/")
    page.get_by_role("navigation", name="Main", exact=True).get_by_role("link", name="Instances").click()
    page.wait_for_url("**/instances/")
    before = clicks.number
    for place in (2, 5, 11, 23, 38):
        page.locator("#list-rows input[name=id]").nth(place).click()
    expect(page.locator("[data-picked-count]")).to_have_text("5 selected")
    page.locator(".bulk").get_by_role("button", name="Stop").click()
    expect(page.locator('#list-rows [data-status="SHUTOFF"]')).to_have_count(5)
    assert clicks.number - before <= 6
    page.locator("#tray").get_by_role("button", name="Undo Stop: 5 instances").click()
    expect(page.locator('#list-rows [data-status="ACTIVE"]')).to_have_count(40)
