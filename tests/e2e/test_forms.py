"""The forms of the dashboard and of the admin are submitted in Chromium against the real web server.

Their values are in ``tests/support/form_steps.py``; a form without values makes these tests fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.form_steps import ADMIN, ELSEWHERE, OPERATOR, USER
from tests.support.forms import Step, Visitor
from tests.support.one_machine import PATIENCE, OneMachine, running, wait_for

pytestmark = [pytest.mark.deep, pytest.mark.e2e, pytest.mark.slow]

ADD = ".object-tools a[href$='/add/'], a.addlink.btn"
FIELDS = "() => [...document.querySelectorAll('form [name]')].map((each) => each.name)"
SignIn = Callable[[str], Visitor]
MIB = 1 << 20


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    """A cloud of its own: the forms change what all of its projects have."""
    with running(simulate=2) as cloud:
        yield cloud


@pytest.fixture
def sign_in(cloud: OneMachine, chromium: Browser) -> Iterator[SignIn]:
    """``sign_in("demo")``: a browser in which this person has signed in and opened every list."""
    contexts = []

    def enter(name: str) -> Visitor:
        context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        contexts.append(context)
        visitor = Visitor(context.new_page(), cloud.url)
        password = cloud.password(name)
        messages = visitor.submit(
            Step("dashboard:sign_in", {"user_name": name, "password": password}, at="/auth/login/")
        )
        assert not messages
        links = visitor.page.query_selector_all(".sidebar nav a")
        for path in [str(each.get_attribute("href")) for each in links]:
            answer = visitor.go(path)
            assert answer is not None
            assert answer.ok, path
        return visitor

    yield enter
    for context in contexts:
        context.close()


def test_a_sign_out_is_answered_with_the_sign_in_page(sign_in: SignIn, cloud: OneMachine) -> None:
    """Also when the page's socket is closed before the answer arrives: the page asks for no other sign-in then."""
    page = sign_in("demo").page
    with page.expect_websocket() as opened:
        page.goto(f"{cloud.url}/instances/")
    expect(page.locator("#live-mark")).to_have_attribute("data-state", "live")

    def answer_late(route: Route) -> None:
        with opened.value.expect_event("close", timeout=1000 * PATIENCE):
            answer = route.fetch(max_redirects=0)
        route.fulfill(response=answer)

    page.route("**/auth/logout/", answer_late)
    page.evaluate(
        "() => { setTimeout(() => document.querySelector('[action=\"/auth/logout/\"] [type=submit]').click()); }"
    )
    page.wait_for_url(f"{cloud.url}/auth/login/", timeout=1000 * PATIENCE)


def lines(failed: dict[str, str]) -> str:
    return "\n".join(f"{name}: {errors}" for name, errors in failed.items())


def check(visitor: Visitor, steps: list[Step]) -> None:
    """Submit every form; none that was seen on the way may be without a step."""
    failed = visitor.take(steps)
    assert not failed, lines(failed)
    known = {step.key for step in [*USER, *OPERATOR]} | ELSEWHERE.keys()
    seen = {name for name in visitor.forms if name.startswith("dashboard:")}
    assert seen <= known, seen - known


def test_a_user_submits_every_form(sign_in: SignIn) -> None:
    check(sign_in("demo"), USER)


def test_an_operator_submits_every_form(sign_in: SignIn) -> None:
    check(sign_in("admin"), OPERATOR)


def test_an_operator_submits_the_forms_of_the_admin(sign_in: SignIn) -> None:
    """Adds, changes and deletes one of each kind, where that is possible; opens every list."""
    visitor = sign_in("admin")
    visitor.go("/admin/")
    lists = [path for name, paths in visitor.seen.items() if name.endswith("_changelist") for path in paths]
    assert len(lists) > 30
    failed: dict[str, str] = {}
    for path in lists:
        failed |= _administer(visitor, path)
    assert not failed, lines(failed)


def _administer(visitor: Visitor, path: str) -> dict[str, str]:
    """Go through the forms of one kind of record; return what went wrong."""
    answer = visitor.go(path)
    if answer is None or not answer.ok:
        return {path: "there is no list"}
    kind = "_".join(path.strip("/").split("/")[1:3])
    name = f"admin:{kind}"
    known = list(visitor.seen.get(f"{name}_change", []))
    failed: dict[str, str] = {}
    if visitor.page.query_selector(ADD):
        if kind not in ADMIN:
            visitor.go(f"{path}add/")
            return {kind: f"no values for {visitor.page.evaluate(FIELDS)}"}
        failed |= visitor.take([Step(f"{name}_add", ADMIN[kind], at=f"{path}add/", button="[name=_save]")])
    new = [each for each in visitor.seen.get(f"{name}_change", []) if each not in known]
    change = (new or known or [""])[-1]
    if change and visitor.go(change) and visitor.page.query_selector("[name=_save]"):
        failed |= visitor.take([Step(f"{name}_change", at=change, button="[name=_save]")])
    if new:
        delete = change.replace("/change/", "/delete/")
        failed |= visitor.take([Step(f"{name}_delete", at=delete, button="#content [type=submit]")])
    return failed


def upload(page: Page, url: str, file: Path) -> None:
    page.goto(f"{url}/images/upload/")
    page.locator("#file").set_input_files(file)
    page.locator("#disk_format").select_option("raw")
    page.get_by_test_id("upload-submit").click()


def test_an_upload_is_resumed_after_a_reload(sign_in: SignIn, cloud: OneMachine, tmp_path: Path) -> None:
    """Its figures count what has been sent: no speed while it waits, and no bytes of an earlier visit."""
    page = sign_in("demo").page
    file, other = tmp_path / "half.raw", tmp_path / "other.raw"
    file.write_bytes(b"begin" * MIB * 5)
    other.write_bytes(b"other" * MIB * 5)
    page.route(
        "**/images/*/data/",
        lambda route: route.abort() if route.request.headers.get("upload-offset", "0") != "0" else route.continue_(),
    )
    upload(page, cloud.url, file)
    expect(page.locator("#upload-words")).to_contain_text("Trying again")
    expect(page.locator("#upload-figures")).to_have_text("16.0 MiB of 25.0 MiB")
    page.unroute_all()
    page.goto(f"{cloud.url}/images/")
    page.get_by_role("link", name="Resume half").click()
    page.locator("#file").set_input_files(other)
    page.get_by_test_id("upload-submit").click()
    expect(page.locator(".field-error")).to_be_visible()
    held: list[Route] = []
    page.route(
        "**/images/*/data/", lambda route: held.append(route) if route.request.method == "PUT" else route.continue_()
    )
    page.locator("#file").set_input_files(file)
    page.get_by_test_id("upload-submit").click()
    expect(page.locator("#upload-figures")).to_have_text("16.0 MiB of 25.0 MiB")
    expect(page.locator("#upload-percent")).to_have_text("64 %")
    wait_for("the rest is sent", lambda: page.evaluate("1") and held)
    held[0].continue_()
    page.wait_for_url(f"{cloud.url}/images/", timeout=1000 * PATIENCE)
    expect(page.locator("tr", has_text="half").first).to_contain_text("Ready")


def test_an_upload_is_cancelled(sign_in: SignIn, cloud: OneMachine, tmp_path: Path) -> None:
    page = sign_in("demo").page
    file = tmp_path / "unwanted.raw"
    file.write_bytes(bytes(20 * MIB))
    page.route(
        "**/images/*/data/",
        lambda route: route.abort() if route.request.headers.get("upload-offset", "0") != "0" else route.continue_(),
    )
    upload(page, cloud.url, file)
    expect(page.locator("#upload-words")).to_contain_text("Trying again")
    page.unroute_all()
    page.get_by_test_id("upload-cancel").click()
    page.wait_for_url(f"{cloud.url}/images/", timeout=1000 * PATIENCE)
    expect(page.locator("tr", has_text="unwanted")).to_have_count(0)


def test_a_refusal_that_is_not_json_is_reported_with_its_status(
    sign_in: SignIn, cloud: OneMachine, tmp_path: Path
) -> None:
    page = sign_in("demo").page
    file = tmp_path / "small.raw"
    file.write_bytes(b"begin" + bytes(MIB))
    page.route(
        "**/images/upload/",
        lambda route: (
            route.fulfill(status=415, content_type="text/plain", body="This type is refused")
            if route.request.method == "POST"
            else route.continue_()
        ),
    )
    upload(page, cloud.url, file)
    expect(page.locator(".field-error")).to_have_text("The server answered 415: This type is refused.")
