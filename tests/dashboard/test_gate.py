"""The gate: every page of the dashboard within its budgets, measured into docs/dashboard-pages.md.

`WRITE_PAGES=1 pytest -n 0 tests/dashboard/test_gate.py` writes the page. Times of the processor are written there and
not asserted: they are those of the machine.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve
from playwright.sync_api import Error, Page

from tests.dashboard import test_budgets as budgets
from tests.dashboard.conftest import SignedIn
from tests.dashboard.test_seen_in_chromium import DRAWN_BY_OTHERS, LOOK, MOVED, ORIGIN, RULES, of_the_dashboard, tab
from tests.support.cast import People

pytestmark = [pytest.mark.deep, pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]
__all__ = ("tab",)

TABLE = Path(settings.BASE_DIR) / "docs/dashboard-pages.md"
REQUESTS, KILOBYTES, SHIFT = 8, 150, 0.05
LARGER = {"/api/": (10, 640)}
"""Page → its own budgets of requests and kB: Swagger UI is loaded there."""
QUERIES = 60
"""Most queries of a page with one thing of each kind."""
HEADERS = 5_000
"""Bytes of the headers of eight answers."""
FIRST = 2
"""Requests besides the assets: the page and the font."""
BEGIN = """# Pages of the dashboard

Each page of the dashboard as the gate measures it, in a cloud with one thing of each kind, seen by an operator.
`WRITE_PAGES=1 pytest -n 0 tests/dashboard/test_gate.py` writes this table; the test fails for a page above a budget.

| measure | budget | how it is measured |
|---|--:|---|
| requests | {REQUESTS} | of a first visit, with the font; 10 on `/api/`, which loads Swagger UI |
| kB | {KILOBYTES} | of a first visit, as they are sent, with {headers} kB of headers; 640 on `/api/` |
| queries | {QUERIES} | of the database, for the page alone |
| processor | none | milliseconds of one core for the page alone, median of three; depends on the machine |
| shift | {SHIFT} | Cumulative Layout Shift at 1280 x 720 |
| scripts | 0 | errors of scripts, with the other requests of the page unanswered |
| axe | 0 | violations that axe finds: light and dark at 1280 pixels, light at 390 |

| page | requests | kB | queries | processor | shift | scripts | axe |
|---|--:|--:|--:|--:|--:|--:|--:|
"""


@dataclass
class Measured:
    """A page's figures; ``wrong`` says what is above a budget."""

    requests: int
    kilobytes: float
    queries: int
    milliseconds: float
    shift: float = 0.0
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
        yield from self.scripts
        yield from self.axe

    def row(self, path: str) -> str:
        numbers = (
            *(self.requests, f"{self.kilobytes:.0f}", self.queries, f"{self.milliseconds:.0f}"),
            *(f"{self.shift:.3f}".rstrip("0").rstrip("."), len(self.scripts), len(self.axe)),
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
def portal(client: Client, rendered: dict[str, bytes]) -> dict[str, Measured]:
    """The queries and bytes of each page; measured before a browser runs in this thread."""
    return {path: served(client, path) for path in rendered}


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


def seen(tab: Page, path: str, measured: Measured) -> None:
    """Measure a page in the browser: its layout shift, the errors of its scripts, and the violations of axe."""
    complaints: list[str] = []

    def hear(error: Error) -> None:
        complaints.append(str(error))

    tab.on("pageerror", hear)
    tab.emulate_media(color_scheme="light")
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.goto(f"{ORIGIN}{path}")
    measured.shift = tab.evaluate(MOVED)
    tab.remove_listener("pageerror", hear)
    measured.scripts = list(dict.fromkeys(complaints))
    found = {f"light: {each}" for each in tab.evaluate(LOOK, [RULES, DRAWN_BY_OTHERS])}
    for colours, width in (("dark", 1280), ("light", 390)):
        tab.emulate_media(color_scheme=colours)
        tab.set_viewport_size({"width": width, "height": 720})
        found |= {f"{colours} at {width}: {each}" for each in tab.evaluate(LOOK, [RULES, DRAWN_BY_OTHERS])}
    measured.axe = sorted(found)


def table_of(found: Mapping[str, Measured]) -> str:
    begin = BEGIN.format(**globals(), headers=HEADERS // 1000)
    return begin + "\n".join(measured.row(path) for path, measured in found.items()) + "\n"


def test_every_page_is_within_its_budgets(portal: dict[str, Measured], tab: Page) -> None:
    found: dict[str, Measured] = {}
    wrong: list[str] = []
    for path, measured in portal.items():
        route = "/" + resolve(path.partition("?")[0]).route if path != "/nowhere/" else path
        seen(tab, path, measured)
        found[route.replace("<uuid:", "<").replace("<slug:", "<").replace("<str:", "<")] = measured
        wrong += [f"{path}: {each}" for each in measured.wrong(path)]
    if os.environ.get("WRITE_PAGES"):
        TABLE.write_text(table_of(found))
    assert not wrong, "\n".join(wrong)
