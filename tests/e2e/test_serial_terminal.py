"""The serial console is a terminal for full-screen programs; a simulated line, which echoes, plays what they write."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, WebSocket, expect

from tests.e2e.conftest import watch
from tests.e2e.pictures import picture
from tests.support.one_machine import OneMachine, wait_for

pytestmark = pytest.mark.e2e
ALTERNATE_SCREEN, NORMAL_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
FAR_CORNER = "\x1b[999;999H"
WHERE_IS_THE_CURSOR = "\x1b[6n"
EDITOR = (
    f"{ALTERNATE_SCREEN}\x1b[2J\x1b[1;1Hfirst line\x1b[2;1Hsecond line\x1b[3;1H~"
    "\x1b[2;8H\x1b[1;44;33mcolumn\x1b[0m\x1b[K\x1b[24;1H-- INSERT --"
    "\x1b[1;1H\x1b[L\x1b[1;1Hinserted\x1b[38;2;255;0;128m pink\x1b[0m"
)
"""What an editor writes: it clears, jumps, paints over, erases to the end of a line, and inserts a line above."""
EDITED = ["inserted pink", "first line", "second column", "~"]
"""The first rows in the end: the last row is written before the line above is inserted."""
WIDTH = "() => document.querySelector('.xterm-screen').getBoundingClientRect().width"
FITS = """() => {
    const place = (name) => document.querySelector(name).getBoundingClientRect();
    return place(".console-frame").bottom <= place(".tabbar").top;
}"""
PASTE = """(target, text) => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    target.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
}"""


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


def note(socket: WebSocket, sent: list[bytes]) -> None:
    """Keep what the terminal sends to the guest."""
    socket.on("framesent", lambda data: sent.append(data.encode() if isinstance(data, str) else data))


def play(line: Page, text: str) -> None:
    """Have the line write this: what is sent to it comes back."""
    line.locator("#console-serial textarea").evaluate(PASTE, text)


def rows(line: Page) -> list[str]:
    return [row.replace("\xa0", " ").rstrip() for row in line.locator(".xterm-rows > div").all_inner_texts()]


def heard(line: Page, sent: list[bytes], expected: re.Pattern[bytes]) -> re.Match[bytes]:
    """Wait until the terminal has sent this."""

    def look() -> re.Match[bytes] | None:
        line.evaluate("0")  # lets Playwright hand over what was sent
        return next(filter(None, map(expected.fullmatch, sent)), None)

    result: re.Match[bytes] = wait_for(f"{expected.pattern!r} is sent", look)
    return result


def size_asked_for(line: Page, sent: list[bytes]) -> tuple[int, int]:
    """Return rows and columns as a guest finds them out: where the cursor stops."""
    sent.clear()
    play(line, FAR_CORNER + WHERE_IS_THE_CURSOR)
    result = heard(line, sent, re.compile(rb"\x1b\[(\d+);(\d+)R"))
    return int(result[1]), int(result[2])


@pytest.mark.deep
def test_full_screen_programs_work_on_the_serial_line(cloud: OneMachine, signed_in: BrowserContext) -> None:
    made = cloud.openstack_json(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano"),
        *("--network", "demo-net", "--wait", "terminal"),
    )
    watched = watch(signed_in, f"{cloud.url}/instances/{made['id']}/")
    complaints, sent = watched.complaints, list[bytes]()
    with signed_in.expect_page() as opened:
        watched.page.get_by_test_id("open-console-serial").click()
    line = opened.value
    line.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    line.on("pageerror", lambda error: complaints.append(str(error)))
    line.on("websocket", lambda socket: note(socket, sent))
    expect(line.get_by_test_id("console-status")).to_have_attribute("data-state", "connected")  # the page has come
    line.reload()
    expect(line.get_by_test_id("console-status")).to_have_attribute("data-state", "connected")
    shown = line.locator(".xterm-rows")
    expect(shown).to_contain_text("terminal login:")

    play(line, EDITOR)
    expect(shown).to_contain_text("-- INSERT --")
    wait_for("all that the editor has written", lambda: rows(line)[:4] == EDITED)
    assert rows(line)[24] == "-- INSERT --"
    assert "login" not in shown.inner_text()
    pink = shown.get_by_text("pink")
    assert pink.evaluate("span => getComputedStyle(span).color") == "rgb(255, 0, 128)"
    picture(line, "serial-terminal")

    before = size_asked_for(line, sent)
    line.set_viewport_size({"width": 1100, "height": 620})
    wait_for("a smaller terminal", lambda: size_asked_for(line, sent) < before)
    assert size_asked_for(line, sent) >= (24, 80)
    line.set_viewport_size({"width": 400, "height": 300})
    wait_for(
        "80 columns of smaller letters",
        lambda: (size := size_asked_for(line, sent))[0] >= 24 and 80 <= size[1] < 90,
    )
    wait_for("it is drawn", lambda: line.evaluate(WIDTH) <= 400)

    play(line, NORMAL_SCREEN)
    expect(shown).to_contain_text("terminal login:")
    assert "INSERT" not in shown.inner_text()

    line.locator("#console-serial textarea").focus()
    for key, code in (("ArrowUp", b"\x1b[A"), ("Escape", b"\x1b"), ("Control+c", b"\x03"), ("Tab", b"\t")):
        sent.clear()
        line.keyboard.press(key)
        heard(line, sent, re.compile(re.escape(code)))
    line.keyboard.press("Shift+Tab")
    expect(line.locator("#console-serial textarea")).not_to_be_focused()
    assert complaints == []
    cloud.openstack("server", "delete", "--wait", "terminal")


def test_the_console_in_the_page_of_an_instance_survives_a_reload_and_fits_a_phone(
    cloud: OneMachine, signed_in: BrowserContext
) -> None:
    made = cloud.openstack_json(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano"),
        *("--network", "demo-net", "--wait", "in-the-page"),
    )
    watched = watch(signed_in, f"{cloud.url}/instances/{made['id']}/console/")
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_test_id("show-console-serial").click()
    console = page.frame_locator("[data-testid=console-frame]")
    for reloaded in (False, True):
        if reloaded:
            page.reload()
        expect(console.get_by_test_id("console-status")).to_have_attribute("data-state", "connected")
        expect(console.locator(".xterm-rows")).to_contain_text("in-the-page login:")
        wait_for("the keys of the console above the bar of the page", lambda: page.evaluate(FITS))
    assert not watched.complaints
