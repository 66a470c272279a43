"""Habits of the dashboard in Chromium: many instances together, focus, times, consoles, phones, wrong files."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, WebSocket, expect

from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.deep, pytest.mark.e2e, pytest.mark.slow]

Enter = Callable[..., BrowserContext]
PHONE = {"width": 390, "height": 844}
MIB = 1 << 20


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


@pytest.fixture
def enter(cloud: OneMachine, chromium: Browser) -> Iterator[Enter]:
    """``enter(timezone_id="Asia/Tokyo")``: a browser of this kind in which the demo user has signed in."""
    contexts = []

    def make(**settings: object) -> BrowserContext:
        context = chromium.new_context(
            **{"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **settings}
        )  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.goto(cloud.url)
        page.get_by_label("User name").fill("demo")
        page.get_by_label("Password").fill(cloud.password())
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{cloud.url}/")
        return context

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def servers(cloud: OneMachine) -> Iterator[list[str]]:
    """Twelve servers that run: more than one part of an action on many."""
    create = ("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net")
    cloud.openstack("quota", "set", "--instances", "20", "--cores", "40", "--ram", "40960", "demo", cloud="admin")
    cloud.openstack(*create, "--min", "12", "--max", "12", "--wait", "habit")
    made = [str(each["ID"]) for each in cloud.openstack_json("server", "list", "--name", "habit")]
    assert len(made) == 12
    yield made
    delete = ("server", "delete", "--wait", "--all-projects")  # by an operator: one may be left locked
    cloud.openstack(*delete, *made, cloud="admin")


def open_list(context: BrowserContext, cloud: OneMachine) -> Page:
    page = context.pages[0]
    page.goto(f"{cloud.url}/instances/?q=habit")
    expect(page.locator("#live-mark")).to_have_attribute("data-state", "live")
    return page


def test_many_are_stopped_in_the_background_and_the_outcome_is_reported(
    enter: Enter, cloud: OneMachine, servers: list[str]
) -> None:
    page = open_list(enter(), cloud)
    cloud.openstack("server", "lock", servers[0])
    page.get_by_label("Select all").check()
    expect(page.locator("[data-picked-count]")).to_have_text("12 selected")
    page.locator(".bulk").get_by_role("button", name="Stop").click()
    dialog = page.locator("#dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Stop 11 of 12 instances?")
    expect(dialog.get_by_role("heading")).to_be_in_viewport()
    expect(dialog.locator(".sheet-names li").first).to_be_in_viewport()
    expect(dialog.locator(".sheet-names li").last).to_have_text("and 2 more")
    dialog.get_by_test_id("confirm").click()
    tray = page.locator("#tray")
    expect(tray).to_be_visible()
    assert page.url.endswith("/instances/?q=habit")
    page.goto(f"{cloud.url}/flavors/")  # the workers continue, and the tray of the next page shows it
    expect(tray).to_contain_text("Stop: 11 of 12")
    expect(tray.locator("li")).to_have_count(1)
    tray.get_by_role("button", name="Dismiss").click()
    expect(tray).to_be_hidden()
    page.goto(f"{cloud.url}/instances/?q=habit")
    expect(page.locator('[data-status="SHUTOFF"]')).to_have_count(11)
    cloud.openstack("server", "unlock", servers[0])
    page.get_by_label("Select all").check()
    page.locator(".bulk").get_by_role("button", name="Start").click()
    dialog.get_by_test_id("confirm").click()
    expect(tray).to_contain_text("Start: 11 of 12")
    assert page.url.endswith("/instances/?q=habit")
    expect(page.locator('[data-status="ACTIVE"]')).to_have_count(12)  # the next tests open their consoles


def test_the_focus_returns_to_the_menu_from_which_was_asked(
    enter: Enter, cloud: OneMachine, servers: list[str]
) -> None:
    page = open_list(enter(), cloud)
    menu = page.locator("[data-row-menu]").first
    menu.focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Delete").first.click()
    expect(page.locator("#dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()
    expect(menu).to_be_focused()


def test_the_page_behind_a_dialog_stays_in_place_and_the_focus_returns(
    enter: Enter, cloud: OneMachine, servers: list[str]
) -> None:
    page = open_list(enter(), cloud)
    filters = page.get_by_role("link", name="Filters")
    filters.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#dialog select").first).to_be_focused()
    expect(page.locator("html")).to_have_css("overflow", "hidden")
    page.keyboard.press("Escape")
    expect(filters).to_be_focused()
    expect(page.locator("html")).not_to_have_css("overflow", "hidden")


def test_the_actions_on_selected_rows_stay_in_sight(enter: Enter, cloud: OneMachine, servers: list[str]) -> None:
    page = open_list(enter(viewport={"width": 390, "height": 844}), cloud)
    last = page.locator("#list-rows input[type=checkbox]").last
    last.check()
    last.scroll_into_view_if_needed()
    assert page.evaluate("scrollY") > 0
    expect(page.locator(".bulk").get_by_role("button", name="Stop")).to_be_in_viewport(ratio=1)
    bar, head = page.locator(".bulk").bounding_box(), page.locator(".topbar").bounding_box()
    assert bar
    assert head
    assert bar["y"] >= head["y"] + head["height"] - 1


def test_the_way_back_to_another_time_span_raises_no_error(enter: Enter, cloud: OneMachine, servers: list[str]) -> None:
    page = enter().pages[0]
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    graphs = f"{cloud.url}/instances/{servers[0]}/graphs/"
    page.goto(graphs)
    page.get_by_role("link", name="30 days").click()
    page.wait_for_url(f"{graphs}30d/")
    page.go_back()
    page.wait_for_url(graphs)
    expect(page.get_by_role("link", name="30 days")).to_be_visible()
    assert not errors


def test_times_are_in_the_zone_of_the_browser(enter: Enter, cloud: OneMachine, servers: list[str]) -> None:
    page = enter(timezone_id="Asia/Tokyo").pages[0]
    page.goto(f"{cloud.url}/instances/{servers[0]}/")
    time = page.locator("#instance-facts time[data-moment]")
    title = re.match(r"\d{4}-\d\d-\d\d (\d\d):(\d\d)\sUTC", time.get_attribute("title") or "")
    assert title is not None
    hour = (int(title[1]) + 9) % 24
    expect(time).to_have_text(re.compile(rf" {hour:02}:{title[2]}$"))
    page.goto(f"{cloud.url}/instances/?q=habit")
    expect(page.locator('time[data-format="age"]').first).to_have_attribute("title", re.compile(r"\d · .*UTC$"))


def console(context: BrowserContext, cloud: OneMachine, server: str, kind: str) -> Page:
    page = context.pages[0]
    page.goto(f"{cloud.url}/instances/{server}/")
    with context.expect_page() as opened:
        page.get_by_test_id(f"open-console-{kind}").click()
    return opened.value


def is_(page: Page, state: str) -> None:
    expect(page.get_by_test_id("console-status")).to_have_attribute("data-state", state)


def test_a_console_comes_back_and_is_taken_over(enter: Enter, cloud: OneMachine, servers: list[str]) -> None:
    context = enter()
    first = console(context, cloud, servers[1], "serial")
    is_(first, "connected")
    first.reload()
    is_(first, "connected")
    second = console(context, cloud, servers[1], "serial")
    is_(second, "connected")
    expect(first.get_by_test_id("console-status")).to_contain_text("another window")
    first.get_by_test_id("console-reconnect").click()
    is_(first, "connected")
    is_(second, "ended")


def note(socket: WebSocket, sent: list[bytes]) -> None:
    def keep(data: bytes | str) -> None:
        sent.append(data if isinstance(data, bytes) else data.encode())

    socket.on("framesent", keep)


def hear(page: Page, sent: list[bytes], expected: bytes) -> None:
    """Wait for bytes that the page sends; they are noted while Playwright waits."""
    for _ in range(1200):
        if expected in b"".join(sent):
            return
        page.wait_for_timeout(50)
    raise AssertionError(sent)


def test_text_is_pasted_and_keys_are_pressed(enter: Enter, cloud: OneMachine, servers: list[str]) -> None:
    context = enter(viewport=PHONE, has_touch=True)
    sent: list[bytes] = []
    page = console(context, cloud, servers[2], "serial")
    is_(page, "connected")
    page.on("websocket", lambda socket: note(socket, sent))
    page.reload()
    is_(page, "connected")
    page.get_by_role("button", name="Paste").click()
    page.get_by_label("Text", exact=True).fill("p@~#ss\n")
    page.get_by_role("button", name="Type it").click()
    hear(page, sent, b"p@~#ss\r")
    page.get_by_role("button", name="Ctrl", exact=True).click()
    page.get_by_role("button", name="Keyboard").click()
    page.keyboard.insert_text("c")
    hear(page, sent, b"\x03")
    page.get_by_role("contentinfo").get_by_role("button", name="Esc").click()
    hear(page, sent, b"\x1b")
    page.get_by_role("button", name="Up").click()
    hear(page, sent, b"\x1b[A")
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Ctrl-D").click()
    hear(page, sent, b"\x04")


def test_a_phone_shows_the_way_in_first_and_the_whole_serial_line(
    enter: Enter, cloud: OneMachine, servers: list[str]
) -> None:
    context = enter(viewport=PHONE, has_touch=True)
    page = context.pages[0]
    page.goto(f"{cloud.url}/instances/{servers[3]}/")
    tops = {
        part: page.evaluate(f"() => document.getElementById('{part}').getBoundingClientRect().top + scrollY")
        for part in ("instance-connect", "instance-open-console", "instance-timeline")
    }
    assert tops["instance-connect"] < PHONE["height"], tops
    assert list(tops.values()) == sorted(tops.values()), tops
    line = console(context, cloud, servers[3], "serial")
    is_(line, "connected")
    wide = "() => document.querySelector('.xterm-screen').getBoundingClientRect().right <= innerWidth"
    wait_for("the line fits", lambda: line.evaluate(wide))
    expect(line.get_by_role("button", name="Keyboard")).to_be_visible()


MARKED = {
    "qcow2": b"QFI\xfb" + bytes(MIB),
    "vmdk": b"KDMV" + bytes(MIB),
    "vhdx": b"vhdxfile" + bytes(MIB),
    "vhd": bytes(MIB) + b"conectix" + bytes(504),
    "vdi": bytes(0x40) + struct.pack("<I", 0xBEDA107F) + bytes(MIB),
    "iso": bytes(0x8001) + b"CD001" + bytes(MIB),
}


def test_a_wrong_format_is_reported_before_anything_is_sent(enter: Enter, cloud: OneMachine, tmp_path: Path) -> None:
    page = enter().pages[0]
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method != "GET" else None)
    page.goto(f"{cloud.url}/images/upload/")
    plain = tmp_path / "plain"
    plain.write_bytes(b"begin" + bytes(MIB))
    for name, data in MARKED.items():
        file = tmp_path / f"{name}-file"
        file.write_bytes(data)
        wrong = [(plain, name), (file, "qcow2" if name != "qcow2" else "vmdk")]
        for path, chosen in [*wrong, *([(file, "raw")] if name != "vhd" else [])]:
            page.locator("#file").set_input_files(path)
            page.locator("#name").fill("wrong")
            page.locator("#disk_format").select_option(chosen)
            page.get_by_test_id("upload-submit").click()
            expect(page.locator('[data-field="disk_format"] .field-error')).to_be_visible()
            assert not posts, (name, chosen)


def test_an_open_list_is_notified_that_a_host_is_silent(enter: Enter, cloud: OneMachine, servers: list[str]) -> None:
    page = open_list(enter(), cloud)
    expect(page.get_by_test_id("silent")).to_have_count(0)
    result = cloud.openstack_json("compute", "service", "list", "--service", "nova-compute", cloud="admin")
    hosts = {str(each["Host"]) for each in result}
    for host in hosts:
        cloud.openstack("compute", "service", "set", "--down", host, "nova-compute", cloud="admin")
    try:
        expect(page.get_by_test_id("silent")).to_have_count(12)
        expect(page.locator(".status", has_text="Active")).to_have_count(0)
    finally:
        for host in hosts:
            cloud.openstack("compute", "service", "set", "--up", host, "nova-compute", cloud="admin")
    expect(page.get_by_test_id("silent")).to_have_count(0)
