"""A person sees how many of each size fit, launches one that does not, and reads why; an operator sees the hosts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.conftest import watch
from tests.e2e.pictures import picture
from tests.e2e.sdk_proxies import connect
from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine, running, wait_for

pytestmark = [
    pytest.mark.deep,
    pytest.mark.e2e,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
TIMES = "\N{MULTIPLICATION SIGN}"
SENTENCE = "4 hosts → 3 are up → 2 have enough memory → 0 have enough disk: 40 GiB requested, at most 30 GiB free."


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    """Four simulated hosts of 60 GiB: one is disabled, one is short of memory, two are short of disk for m1.medium."""
    settings = {"NOVELLA_AGENT_FAKE_CAPACITY": "8:6144:60"}
    with running(simulate=4, settings=settings) as cloud:
        fill(cloud)
        yield cloud


def fill(cloud: OneMachine) -> None:
    """Put servers where they make the difference."""

    conn = connect(cloud, compute_default_microversion="2.74")
    compute = conn.compute

    def all_up() -> list[str]:
        names = sorted(each.name for each in compute.hypervisors(details=True) if each.state == "up")
        return names if len(names) == 4 else []

    first, second, third, last = wait_for("four hosts are up", all_up)
    compute.disable_service(next(each for each in compute.services() if each.host == last))
    wide = compute.create_flavor(name="wide", vcpus=1, ram=96, disk=30)
    image = conn.image.find_image("novella-guest", ignore_missing=False)
    network = conn.network.find_network("demo-net", ignore_missing=False)
    small = compute.find_flavor("m1.small", ignore_missing=False)
    servers = [
        compute.create_server(
            name=f"on-{host}", image_id=image.id, flavor_id=flavor.id, networks=[{"uuid": network.id}], host=host
        )
        for host, flavor in ((first, small), (second, wide), (third, wide))
    ]
    for server in servers:
        compute.wait_for_server(server, interval=0.2, wait=int(PATIENCE))


def signed_in(cloud: OneMachine, chromium: Browser, name: str) -> Page:
    page = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce").new_page()
    page.goto(cloud.url)
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(cloud.password(name))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{cloud.url}/")
    return page


def size(page: Page, name: str) -> Locator:
    return page.locator("#flavors label", has=page.get_by_text(name, exact=True))


def test_the_wizard_says_what_fits_while_choices_change(cloud: OneMachine, chromium: Browser) -> None:
    watched = watch(signed_in(cloud, chromium, "demo").context, f"{cloud.url}/instances/launch/")
    page = watched.page
    expect(size(page, "m1.nano").get_by_test_id("room")).to_have_text(f"fits {TIMES}10+")
    expect(size(page, "m1.small").get_by_test_id("room")).to_have_text(f"fits {TIMES}3")
    expect(size(page, "m1.medium").get_by_test_id("room")).to_have_text(f"fits {TIMES}0")
    expect(size(page, "m1.medium")).to_contain_text("No hosts have enough disk: 40 GiB requested, at most 30 GiB free.")
    picture(page, "fits")

    page.locator("summary", has_text="Advanced").click()
    page.locator("#count").fill("5")
    expect(size(page, "m1.small")).to_contain_text("Only 3 of 5 would fit now.")
    assert page.evaluate("document.activeElement.id") == "count"
    picture(page, "fits-some")
    cloud.openstack(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.small", "--network", "demo-net"),
        *("--wait", "meanwhile"),
    )
    page.locator("#count").fill("1")
    expect(size(page, "m1.small").get_by_test_id("room")).to_have_text(f"fits {TIMES}2")
    cloud.openstack("server", "delete", "--wait", "meanwhile")
    assert watched.complaints == []


def test_the_page_says_why_there_is_no_host(cloud: OneMachine, chromium: Browser) -> None:
    watched = watch(signed_in(cloud, chromium, "demo").context, f"{cloud.url}/instances/launch/")
    page = watched.page
    size(page, "m1.medium").click()
    page.locator("#name").fill("too-wide")
    page.locator("[name=password]").uncheck()  # it would be shown once on a page of its own
    page.get_by_test_id("launch-submit").click()
    page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
    expect(page.get_by_test_id("fault")).to_contain_text("m1.small would fit 3 times")
    decision = page.get_by_test_id("decision-1")
    expect(decision).to_contain_text(SENTENCE)
    expect(decision).to_have_attribute("open", "")
    assert "sim" not in page.get_by_test_id("decisions").inner_text()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        picture(page, "explain" if scheme == "light" else f"explain-{scheme}")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "explain-phone", full_page=True)
    assert watched.complaints == []

    operator = watch(signed_in(cloud, chromium, "admin").context, page.url)
    expect(operator.page.get_by_test_id("decisions")).to_contain_text("without")
    picture(operator.page, "explain-operator")
    assert operator.complaints == []


def test_operators_see_how_the_best_hosts_were_weighed(cloud: OneMachine, chromium: Browser) -> None:
    """With the keyboard alone."""
    made = cloud.openstack_json(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", "--wait"),
        "anywhere",
        cloud="admin",
    )
    server = made["id"]
    watched = watch(signed_in(cloud, chromium, "admin").context, f"{cloud.url}/instances/{server}/activity/")
    page = watched.page
    page.locator(".decision summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".decision-weights")).to_be_visible()
    expect(page.locator(".decision-weights tbody tr")).to_have_count(3)
    picture(page, "explain-weights")
    page.goto(f"{cloud.url}/admin/compute/schedulingdecision/")
    picture(page, "admin-decisions")
    page.locator("#result_list tbody th a").first.click()
    expect(page.locator(".sieve")).to_be_visible()
    picture(page, "admin-decision")
    assert watched.complaints == []


def test_the_command_line_says_the_same(cloud: OneMachine) -> None:
    output = subprocess.run(
        [CHECKOUT / ".venv/bin/python", "manage.py", "would_fit", "--flavor", "m1.medium", "--count", "2"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=ENVIRONMENT | cloud.settings | {"NOVELLA_DATA": str(cloud.data)},
        check=False,
    )
    assert output.returncode == 1, output.stderr
    assert output.stdout.startswith("m1.medium fits 0 times; 2 requested.\n")
    assert SENTENCE in output.stdout
