"""A person opens the dashboard, launches an instance in the wizard, and watches every step of it arrive."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import Key, watch
from tests.e2e.pictures import picture
from tests.support.one_machine import OneMachine, wait_for
from up.processes import children

pytestmark = [pytest.mark.e2e, pytest.mark.libvirt]
NAME = "browser-guest"
STEPS = (
    *("api_create", "schedule", "claim", "allocate_network", "hand_off"),
    *("plug_network", "fetch_image", "create_disk", "create_seed", "define_domain", "apply_firewall"),
    *("start_guest", "wait_for_boot"),
)
RECORD_STATES = """() => {
    window.bornOnce = true;
    window.seen = [];
    const look = () => {
        for (const cell of document.querySelectorAll('[data-testid=instance-status]')) {
            const now = cell.dataset.status + '/' + cell.dataset.task;
            if (window.seen.at(-1) !== now) window.seen.push(now);
        }
    };
    new MutationObserver(look).observe(document.body, {subtree: true, childList: true, attributes: true});
    look();
}"""


def hold(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def group_of(pid: int) -> list[int]:
    """A process and all below it."""
    return [pid, *(below for child in children(pid) for below in group_of(child))]


def fill_in(page: Page, key: Key) -> None:
    """Import the key without leaving the wizard, and choose a name and a size."""
    if not page.locator("#key_new_name").is_visible():
        page.get_by_text("New key pair").click()
    page.locator("#key_new_name").fill("laptop")
    page.locator("#key_new_public").fill(key.public.read_text())
    page.get_by_role("button", name="Add key pair").click()
    expect(page.locator("input[name=key_name][value=laptop]")).to_be_checked()
    page.locator("#name").fill(NAME)
    page.locator("label", has_text="m1.nano").click()


def may_be_written(database: Path) -> bool:
    with closing(sqlite3.connect(database, timeout=2, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


def hold_workers(cloud: OneMachine) -> list[int]:
    """Hold all workers, but not while one of them writes: nobody else could write then, not even the page's launch."""
    top = cloud.runs[-1].service("qworker")

    def held() -> list[int]:
        workers = group_of(top)
        hold(workers, signal.SIGSTOP)
        if group_of(top) == workers and may_be_written(cloud.data / "portal/db.sqlite3"):
            return workers
        hold(group_of(top), signal.SIGCONT)
        return []

    result: list[int] = wait_for("no worker writes", held)
    return result


def submit_while_nobody_works(cloud: OneMachine, page: Page, others: list[Page]) -> None:
    """Launch with the workers held, so that a person can see that the instance waits for the scheduler."""
    workers = hold_workers(cloud)
    try:
        page.get_by_test_id("launch-submit").click()
        page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
        page.evaluate(RECORD_STATES)
        for opened in (page, *others):
            expect(opened.locator("[data-task=scheduling]").first).to_be_visible()
    finally:
        hold(workers, signal.SIGCONT)


def assert_watched(page: Page) -> None:
    """The page went through the states by itself, without being loaded again."""
    expect(page.locator("[data-testid=instance-status][data-status=ACTIVE]").first).to_be_visible()
    assert page.evaluate("window.bornOnce"), "the page was loaded again"
    seen = page.evaluate("window.seen")
    assert "BUILD/scheduling" in seen[:2], seen
    assert "BUILD/spawning" in seen, seen
    assert seen[-1] == "ACTIVE/", seen


def test_launch_watch_read_and_sign_in(cloud: OneMachine, signed_in: BrowserContext, key: Key) -> None:
    listing = watch(signed_in, f"{cloud.url}/instances/")
    listing.page.evaluate(RECORD_STATES)
    wizard = watch(signed_in, f"{cloud.url}/instances/launch/")
    page = wizard.page
    fill_in(page, key)
    submit_while_nobody_works(cloud, page, [listing.page])

    assert_watched(page)
    assert_watched(listing.page)
    for step in STEPS:
        expect(page.get_by_test_id(f"step-{step}")).to_have_attribute("data-state", "done")
    expect(listing.page.get_by_role("link", name=NAME)).to_be_visible()

    page.get_by_test_id("head-console").click()
    console = page.get_by_test_id("console-log")
    expect(console).to_contain_text("Novella guest:")
    address = str(cloud.openstack_json("server", "show", NAME)["addresses"]["demo-net"][0])
    expect(console).to_contain_text(re.compile(rf"Novella guest: {NAME} {re.escape(address)}/\d+"))
    expect(page.get_by_text(address).first).to_be_visible()
    overview = watch(signed_in, f"{cloud.url}/")
    expect(overview.page.get_by_text(NAME).first).to_be_visible()

    port = cloud.openstack("port", "list", "--server", NAME, "-f", "value", "-c", "ID").strip()
    floating = str(cloud.openstack_json("floating", "ip", "create", "--port", port, "public")["floating_ip_address"])
    assert ssh(cloud, key, floating, "hostname; cut -d. -f1 /etc/hostname").split() == [NAME, NAME]

    page.get_by_test_id("more").click()
    page.get_by_test_id("action-delete").click()
    page.get_by_test_id("confirm").click()
    expect(listing.page.get_by_role("link", name=NAME)).to_have_count(0)
    wait_for("the server is gone", lambda: cloud.openstack_json("server", "list") == [])
    assert [*wizard.complaints, *listing.complaints, *overview.complaints] == []


def ssh(cloud: OneMachine, key: Key, address: str, command: str) -> str:
    """Sign in to a guest from the machine."""
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes"]
    options += ["-o", "ConnectTimeout=5", "-o", "LogLevel=ERROR", "-i", str(key.private)]

    def attempt() -> str:
        done = subprocess.run(
            ["ip", "netns", "exec", cloud.machine, "ssh", *options, f"root@{address}", command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout if done.returncode == 0 else ""

    return str(wait_for("a login by SSH", attempt))


@pytest.mark.deep
def test_a_lost_connection_is_caught_up(cloud: OneMachine, signed_in: BrowserContext) -> None:
    watched = watch(signed_in, f"{cloud.url}/instances/")
    page = watched.page
    page.evaluate("window.bornOnce = true")
    expect(page.locator("#live-mark[data-state=live]").first).to_be_visible()
    signed_in.set_offline(True)
    web = cloud.runs[-1].service("manage.py web")
    os.kill(web, signal.SIGTERM)
    expect(page.locator("#live-mark[data-state=offline]").first).to_be_visible()
    wait_for("the web service is back", lambda: cloud.client("token", "issue").returncode == 0)
    cloud.openstack(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net"),
        *("--wait", "while-away"),
    )
    signed_in.set_offline(False)
    expect(page.get_by_role("link", name="while-away")).to_be_visible()
    expect(page.locator("[data-testid=instance-status][data-status=ACTIVE]").first).to_be_visible()
    assert page.evaluate("window.bornOnce")
    cloud.openstack("server", "delete", "--wait", "while-away")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.deep
def test_pages_fit_a_phone(cloud: OneMachine, signed_in: BrowserContext, scheme: str) -> None:
    for path in ("/", "/instances/", "/instances/launch/", "/images/", "/flavors/", "/key-pairs/", "/project/"):
        watched = watch(signed_in, f"{cloud.url}{path}")
        watched.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        watched.page.set_viewport_size({"width": 390, "height": 844})
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        picture(watched.page, "-".join(["phone", scheme, *path.strip("/").split("/")]))
        assert width <= 390, f"{path} is {width} px wide"
        assert watched.complaints == []
        watched.page.close()


def test_a_long_name_widens_no_page(cloud: OneMachine, signed_in: BrowserContext) -> None:
    name = "w" * 255
    made = cloud.openstack_json(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", name)
    )
    for path in ("/", "/instances/", f"/instances/{made['id']}/"):
        page = watch(signed_in, f"{cloud.url}{path}").page
        expect(page.get_by_text(name).first).to_be_visible()
        for width, height in ((1440, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            result = page.evaluate("document.documentElement.scrollWidth")
            assert result <= width, f"{path} is {result} px wide"
        page.close()
    cloud.openstack("server", "delete", "--wait", made["id"])
