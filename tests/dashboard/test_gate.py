"""The gate: every page of the dashboard within its budgets, measured into docs/dashboard-pages.md.

Each page is opened twice. The second time, its texts are hostile: names, descriptions, tags, metadata and reasons are
markup and 255 characters without a space, which turn the direction of what follows. Questions and forms of the dialog
are opened in it, too.

`WRITE_PAGES=1 pytest -n 0 tests/dashboard/test_gate.py` writes the page, each share of the test the rows of its pages.
Times of the processor are written there and not asserted: they are those of the machine.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve
from playwright.sync_api import Error, Page, Route, WebSocketRoute

from tests.dashboard import test_budgets as budgets
from tests.dashboard.conftest import SignedIn
from tests.dashboard.test_names import mixed
from tests.dashboard.test_seen_in_chromium import DRAWN_BY_OTHERS, LOOK, MOVED, ORIGIN, RULES, of_the_dashboard, tab
from tests.support.cast import People
from tests.support.hostile import MARKUP, turn_texts
from tests.support.pages import Document

pytestmark = [pytest.mark.deep, pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]
__all__ = ("tab",)

TABLE = Path(settings.BASE_DIR) / "docs/dashboard-pages.md"
REQUESTS, KILOBYTES, SHIFT = 8, 150, 0.05
LARGER = {"/api/": (10, 640)}
"""Page → its own budgets of requests and kB: Swagger UI is loaded there."""
AS_THEY_ARE = ("/styleguide/", "/auth/login/", "/nowhere/")
"""Pages without texts of users."""
SHARES = 4
"""Tests that share the pages, so that several processes measure them."""
QUERIES = 60
"""Most queries of a page with one thing of each kind."""
DIALOG = b'id="dialog-title"'
HEADERS = 5_000
"""Bytes of the headers of eight answers."""
FIRST = 2
"""Requests besides the assets: the page and the font."""
WIDTHS = (390, 768, 1280, 1920)
"""Pixels of a phone, a tablet, a small and a large screen."""
WIDER = """() => {
    const whole = document.documentElement.scrollWidth;
    if (whole <= innerWidth) return '';
    const clips = (each) => getComputedStyle(each).overflowX !== 'visible';
    const kept = (each) => each && each !== document.body && (clips(each) || kept(each.parentElement));
    const ends = (each) => each.getBoundingClientRect().right > innerWidth;
    const beyond = [...document.body.querySelectorAll('*')].filter(ends);
    const causes = beyond.filter((each) => !kept(each)).map((each) => `${each.tagName}.${each.className}`);
    return `${whole} pixels: ${causes.slice(-3).join(', ')}`;
}"""
"""The width of a page that is scrolled sideways, with the innermost elements beyond its edge."""
ASTRAY = """(place) => {
    const danger = document.querySelector(`${place} .btn-danger[data-testid=confirm]`);
    const focused = document.activeElement;
    return !danger || focused.textContent.trim() === 'Cancel' ? '' : focused.outerHTML.slice(0, 200);
}"""
"""The element with the focus where a question destroys something, unless that is Cancel."""
OPEN = "(path) => htmx.ajax('GET', path, { target: '#dialog' })"
UPDATE = """() => {
    const around = (each) => each.parentElement.closest('#main [id]:not(form)');
    const found = [...document.querySelectorAll('#main a[href], #main button, #main input, #main select')]
        .find((each) => each.checkVisibility() && around(each));
    if (!found) return '';
    found.focus();
    window.focusedHere = document.activeElement;
    document.addEventListener('novella:live', () => (window.updated = true), { once: true });
    const part = around(found).cloneNode(true);
    part.dataset.updated = 'yes';
    const rows = found.closest('tbody[id]');
    if (!part.matches('tr') || !rows) return part.outerHTML;
    const order = [...rows.children].map((each) => each.id).join(' ');
    return `<table><tbody id="${rows.id}" data-live-order="${order}">${part.outerHTML}</tbody></table>`;
}"""
"""Focuses the first control of a part of the page, and returns the part as a frame of the socket has it."""
FOCUS_IS_KEPT = "() => document.activeElement === window.focusedHere && focusedHere.isConnected"
BEGIN = """# Pages of the dashboard

Each page of the dashboard as the gate measures it, in a cloud with one thing of each kind, seen by an operator. For
*names*, *wide*, *focus* and *axe*, names, descriptions, tags, metadata and reasons are markup and 255 characters
without a space, which turn the direction of what follows. Pages that are shown in the dialog are also opened in it.
`WRITE_PAGES=1 pytest -n 0 tests/dashboard/test_gate.py` writes this table; the test fails for a page above a budget.

| measure | budget | how it is measured |
|---|--:|---|
| requests | {REQUESTS} | of a first visit, with the font; 10 on `/api/`, which loads Swagger UI |
| kB | {KILOBYTES} | of a first visit, as they are sent, with {headers} kB of headers; 640 on `/api/` |
| queries | {QUERIES} | of the database, for the page alone |
| processor | none | milliseconds of one core for the page alone, median of three; depends on the machine |
| shift | {SHIFT} | Cumulative Layout Shift, the larger one of 1280 x 720 and 390 x 844 |
| names | 0 | texts of users or hosts that are not isolated by `<bdi>` from the text beside them, or that are markup |
| wide | 0 | of the widths {widths} pixels, those at which the page is scrolled sideways |
| focus | 0 | not kept when the socket updates its part of the page, or not on *Cancel* where something is destroyed |
| scripts | 0 | errors of scripts, with the other requests of the page unanswered |
| axe | 0 | violations that axe finds: light and dark at 1280 pixels, light at 390 |

| page | requests | kB | queries | processor | shift | names | wide | focus | scripts | axe |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""


@dataclass
class Measured:
    """A page's figures; ``wrong`` says what is above a budget."""

    requests: int
    kilobytes: float
    queries: int
    milliseconds: float
    shift: float = 0.0
    names: list[str] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)
    focus: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    axe: list[str] = field(default_factory=list)

    def wrong(self, path: str) -> Iterator[str]:
        requests, kilobytes = LARGER.get(path, (REQUESTS, KILOBYTES))
        if self.requests > requests:
            yield f"{self.requests} requests"
        if self.kilobytes > kilobytes:
            yield f"{self.kilobytes:.0f} kB"
        if self.queries > QUERIES:
            yield f"{self.queries} queries"
        if self.shift >= SHIFT:
            yield f"layout shift {self.shift:.3f}"
        for result in (self.names, self.wide, self.focus, self.scripts, self.axe):
            yield from result

    def row(self, path: str) -> str:
        numbers = (
            *(self.requests, f"{self.kilobytes:.0f}", self.queries, f"{self.milliseconds:.0f}"),
            f"{self.shift:.3f}".rstrip("0").rstrip("."),
            *map(len, (self.names, self.wide, self.focus, self.scripts, self.axe)),
        )
        return f"| `{path}` | {' | '.join(map(str, numbers))} |"


@pytest.fixture
def client(signed_in: SignedIn, people: People, town: None) -> Client:
    return signed_in(people.operator)


@pytest.fixture
def rendered(client: Client) -> dict[str, bytes]:
    """Each page of the dashboard by its address."""
    return {path: content for path, content in of_the_dashboard(client).items() if b"<html" in content}


@pytest.fixture
def portal(client: Client, rendered: dict[str, bytes], share: int) -> dict[str, Measured]:
    """The queries and bytes of each page of a share; measured before a browser runs in this thread."""
    return {path: served(client, path) for path in list(rendered)[share::SHARES]}


@pytest.fixture
def hostile(client: Client, rendered: dict[str, bytes], portal: dict[str, Measured]) -> dict[str, bytes]:
    """The same pages with hostile texts."""
    turn_texts()
    return {path: rendered[path] if path in AS_THEY_ARE else answered(client, path) for path in portal}


@pytest.fixture
def dialogs(client: Client, hostile: dict[str, bytes]) -> dict[str, bytes]:
    """What the dialog shows of these pages, with hostile texts."""
    result = {path: client.get(path, headers={"HX-Request": "true"}).content for path in hostile}
    return {path: content for path, content in result.items() if DIALOG in content and b"<html" not in content}


def answered(client: Client, path: str) -> bytes:
    answer = client.get(path)
    assert answer.status_code in {200, 404}, path
    return answer.content


def served(client: Client, path: str) -> Measured:
    """Measure what the portal does for a page."""
    times, queries = [], 0
    for _ in range(3):
        with CaptureQueriesContext(connection) as sent:
            begun = time.process_time()
            answer = client.get(path)
            times.append(1000 * (time.process_time() - begun))
        queries = len(sent)
    page = answer.content
    names = set(budgets.ASSET.findall(page.decode()))
    size = len(gzip.compress(page)) + budgets.FONT.stat().st_size + sum(map(budgets.compressed, names)) + HEADERS
    return Measured(FIRST + len(names), size / 1000, queries, median(times))


def astray(tab: Page, sockets: list[WebSocketRoute]) -> Iterator[str]:
    """Yield where the focus is wrong: in a question, and after an update of the part of the page that has it."""
    if wrong := tab.evaluate(ASTRAY, "main"):
        yield f"the focus is on {wrong}"
    if tab.locator("main[data-live-page]:not([data-live-page=''])").count():
        tab.wait_for_selector("#live-mark[data-state=live]")
        if part := tab.evaluate(UPDATE):
            sockets[-1].send(json.dumps({"id": 1, "html": part}))
            tab.wait_for_function("() => window.updated", polling=50)
            if not tab.evaluate(FOCUS_IS_KEPT):
                yield f"the focus is lost in {part[:200]}"


def wider(tab: Page) -> Iterator[str]:
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 720})
        if result := tab.evaluate(WIDER):
            yield f"at {width} it has {result}"


def seen(tab: Page, path: str, measured: Measured) -> None:
    """Measure a page in the browser: its layout shift and the errors of its scripts."""
    complaints: list[str] = []

    def hear(error: Error) -> None:
        complaints.append(str(error))

    tab.on("pageerror", hear)
    tab.emulate_media(color_scheme="light")
    for width, height in ((390, 844), (1280, 720)):
        tab.set_viewport_size({"width": width, "height": height})
        tab.goto(f"{ORIGIN}{path}")
        measured.shift = max(measured.shift, tab.evaluate(MOVED))
    tab.remove_listener("pageerror", hear)
    measured.scripts = list(dict.fromkeys(complaints))


def violations(tab: Page, place: str) -> Iterator[str]:
    """Yield what axe finds in a part of the page, in both colours and on a phone."""
    for colours, width in (("light", 1280), ("dark", 1280), ("light", 390)):
        tab.emulate_media(color_scheme=colours)
        tab.set_viewport_size({"width": width, "height": 720})
        result = tab.evaluate(LOOK, [RULES, DRAWN_BY_OTHERS, place])
        yield from (f"{place}, {colours} at {width}: {each}" for each in result)


def seen_with_hostile_texts(tab: Page, path: str, measured: Measured, sockets: list[WebSocketRoute]) -> None:
    """Measure a page in the browser: where it is wide, the focus, and the violations of axe."""
    tab.goto(f"{ORIGIN}{path}")
    measured.focus = list(astray(tab, sockets))
    measured.wide = list(wider(tab))
    measured.axe = list(violations(tab, "html"))


def seen_in_the_dialog(tab: Page, path: str, measured: Measured) -> None:
    """Measure what the dialog shows: the focus, and the violations of axe."""
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.goto(f"{ORIGIN}/")
    tab.evaluate(OPEN, path)
    tab.wait_for_selector("#dialog[open] #dialog-title")
    if wrong := tab.evaluate(ASTRAY, "#dialog"):
        measured.focus.append(f"in the dialog the focus is on {wrong}")
    measured.axe += violations(tab, "#dialog")


def table_of(routes: Sequence[str], found: Mapping[str, Measured], table: str) -> str:
    """Return the table with the rows of the measured pages replaced, and without those of pages that do not exist."""
    begin = BEGIN.format(**globals(), headers=HEADERS // 1000, widths=", ".join(map(str, WIDTHS)))
    rows = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}
    rows |= {path: measured.row(path) for path, measured in found.items()}
    return begin + "\n".join(rows[path] for path in routes if path in rows) + "\n"


@pytest.mark.parametrize("share", range(SHARES))
def test_every_page_is_within_its_budgets(
    rendered: dict[str, bytes],
    portal: dict[str, Measured],
    hostile: dict[str, bytes],
    dialogs: dict[str, bytes],
    tab: Page,
) -> None:
    sockets: list[WebSocketRoute] = []

    def connect(socket: WebSocketRoute) -> None:
        sockets.append(socket)

    tab.context.route_web_socket(re.compile(r"/ws/dashboard\?"), connect)
    assert len(dialogs) > 20 / SHARES
    for path, measured in portal.items():
        seen(tab, path, measured)
        rendered[path] = hostile[path]  # the tab opens these
        page = hostile[path].decode()
        measured.names = [f"not isolated: {text[:80]}" for text in sorted(mixed(Document(page)))]
        measured.names += ["a text is markup"] * (MARKUP in page)
        seen_with_hostile_texts(tab, path, measured, sockets)
    tab.route("**/*", lambda route: answer_with(dialogs, route))
    for path in dialogs:
        seen_in_the_dialog(tab, path, portal[path])
    if os.environ.get("WRITE_PAGES"):
        found = {route_of(path): measured for path, measured in portal.items()}
        TABLE.write_text(table_of([*map(route_of, rendered)], found, TABLE.read_text()))
    wrong = [f"{path}: {each}" for path, measured in portal.items() for each in measured.wrong(path)]
    assert not wrong, "\n".join(wrong)


def answer_with(dialogs: dict[str, bytes], route: Route) -> None:
    """Answer htmx with the contents of the dialog; leave other requests to the tab."""
    path = route.request.url.removeprefix(ORIGIN)
    if path in dialogs and not route.request.is_navigation_request():
        route.fulfill(body=dialogs[path], content_type="text/html; charset=utf-8")
    else:
        route.fallback()


def route_of(path: str) -> str:
    if path == "/nowhere/":
        return path
    return re.sub("<(?:uuid|slug|str):", "<", "/" + resolve(path.partition("?")[0]).route)
