"""Rules for every page as Chromium draws it: axe finds nothing, nothing moves, and the side bar shows where one is.

The pages are rendered here and given to the browser, some 200 with those of the admin: minutes for all together.
"""

from __future__ import annotations

import mimetypes
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib import admin as django_admin
from django.test import Client, override_settings
from django.urls import reverse
from playwright.sync_api import Page, Route, sync_playwright

from tests.dashboard.conftest import SignedIn
from tests.support.cast import People
from tests.support.pages import static_file, walk

pytestmark = [pytest.mark.deep, pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1800)]

ORIGIN = "http://testserver"
AXE = Path(settings.BASE_DIR) / "node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
DRAWN_BY_OTHERS = [".select2-selection__rendered", ".tabular .original", ".tabular th:last-child", "#try-it"]
"""Parts that Django's admin and Swagger UI draw."""
LOOK = """async ([rules, others, place]) => {
    await document.fonts.ready;
    const found = await axe.run({ include: [place], exclude: others }, { runOnly: rules, resultTypes: ['violations'] });
    const places = (each) => each.nodes.slice(0, 3).map((node) => node.html.slice(0, 200));
    return found.violations.map((each) => `${each.id}: ${places(each)}`);
}"""
MOVED = """() => new Promise((tell) => {
    new PerformanceObserver((list) => tell(list.getEntries().reduce((sum, each) => sum + each.value, 0)))
        .observe({ type: 'layout-shift', buffered: true });
    setTimeout(() => tell(0), 50);
})"""
HIDDEN = """() => [...document.querySelectorAll('.sidebar [aria-current=page]')].filter((each) => {
    const { top, bottom, height } = each.getBoundingClientRect();
    return !height || top < 0 || bottom > innerHeight;
}).map((each) => each.textContent.trim())"""
UNEVEN = """() => [...document.querySelectorAll('.columns')].filter((each) => {
    const seen = (column) => [...column.children].find((part) => part.getBoundingClientRect().height > 1);
    const parts = [...each.children].map(seen).filter(Boolean).map((part) => part.getBoundingClientRect());
    const beside = parts.length === 2 && parts[0].right <= parts[1].left;
    return beside && Math.abs(parts[0].top - parts[1].top) > 1;
}).length"""
"""How many times two columns do not begin at one height."""
MOST_MOVED = 0.1
"""Layout shift of a page that is still good (web.dev, Cumulative Layout Shift)."""


def of_operators(client: Client) -> dict[str, bytes]:
    """Lists, forms and records of the admin."""
    result = {"/admin/": client.get("/admin/").content}
    for model in django_admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        first = model._default_manager.first()
        paths = [reverse(f"{name}_changelist"), reverse(f"{name}_add")]
        if first is not None:
            paths.append(reverse(f"{name}_change", args=[first.pk]))
        for path in paths:
            answer = client.get(path)
            if answer.status_code == 200:
                result[path] = answer.content
    return result


def of_the_dashboard(client: Client) -> dict[str, bytes]:
    result = {path: client.get(path).content for path, _ in walk(client, "/", of_each=1)}
    with override_settings(DEBUG=True):
        result["/styleguide/"] = client.get("/styleguide/").content
    return result | {"/auth/login/": Client().get("/auth/login/").content, "/nowhere/": client.get("/nowhere/").content}


@pytest.fixture(params=[of_the_dashboard, of_operators], ids=["dashboard", "admin"])
def rendered(request: pytest.FixtureRequest, signed_in: SignedIn, people: People, town: None) -> dict[str, bytes]:
    """Each page of a face by its address, with one thing of each kind, as the operator has them."""
    result = request.param(signed_in(people.operator))
    result = {path: content for path, content in result.items() if b"<html" in content}  # the others are parts of pages
    assert len(result) > 60
    return result


@pytest.fixture
def tab(rendered: dict[str, bytes]) -> Iterator[Page]:
    """A page in a browser that gets these pages and the static files, and nothing else."""

    def answer(route: Route) -> None:
        whole = route.request.url.removeprefix(ORIGIN)
        path = urlsplit(whole).path
        if path.startswith("/static/") and (body := static_file(path.removeprefix("/static/"))) is not None:
            kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
            route.fulfill(body=body, content_type=kind)
        elif whole in rendered and route.request.is_navigation_request():  # a part of a page has another answer
            route.fulfill(body=rendered[whole], content_type="text/html; charset=utf-8")
        else:
            route.fulfill(status=404, body="")

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        context = chromium.new_context(
            viewport={"width": 1280, "height": 720}, bypass_csp=True, reduced_motion="reduce"
        )
        context.set_default_timeout(300_000)
        context.route("**/*", answer)
        context.add_init_script(path=AXE)
        yield context.new_page()
        chromium.close()


def wrong_with(tab: Page, path: str) -> Iterator[str]:
    """Open a page, and yield what is wrong with it. axe looks at the admin in both colours; at the dashboard's pages it
    looks in the gate.
    """
    tab.emulate_media(color_scheme="light")
    tab.goto(f"{ORIGIN}{path}")
    moved = tab.evaluate(MOVED)
    if moved > MOST_MOVED:
        yield f"it moves: {moved:.2f}"
    if tab.evaluate(UNEVEN):
        yield "the columns are uneven"
    yield from (f"not in sight: {each}" for each in tab.evaluate(HIDDEN))
    if path.startswith("/admin/"):
        for colours in ("light", "dark"):
            tab.emulate_media(color_scheme=colours)
            yield from (f"{colours}: {each}" for each in tab.evaluate(LOOK, [RULES, DRAWN_BY_OTHERS, "html"]))


def test_every_page_is_accessible_keeps_still_and_shows_where_one_is(rendered: dict[str, bytes], tab: Page) -> None:
    wrong = [f"{path}: {each}" for path in rendered for each in wrong_with(tab, path)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("rendered", [of_operators], indirect=True, ids=["admin"])
def test_no_is_no_bad_news(rendered: dict[str, bytes], tab: Page) -> None:
    """A host that is not forced down is well."""
    tab.goto(ORIGIN + next(path for path in rendered if re.fullmatch("/admin/hosts/host/.+/change/", path)))
    shown = tab.locator(".field-forced_down img")
    assert shown.evaluate("(each) => getComputedStyle(each).filter") == "grayscale(1)"
