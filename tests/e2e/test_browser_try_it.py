"""The APIs are tried in a browser: the page loads under the strict policy and asks as the person who is signed in."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.conftest import watch
from tests.e2e.pictures import picture
from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.deep, pytest.mark.e2e]


def test_an_operation_is_tried(simulated: OneMachine, chromium: Browser) -> None:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(simulated.url)
    page.get_by_label("User name").fill("demo")
    page.get_by_label("Password").fill(simulated.password())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{simulated.url}/")
    page.close()

    watched = watch(context, f"{simulated.url}/api-access/")
    page = watched.page
    page.get_by_role("link", name="Try the APIs").click()
    path = page.locator('[data-path="/compute/v2.1/flavors"]')
    flavors = page.locator(".opblock-get", has=path)
    page.get_by_placeholder("Filter by tag").fill("flavors")
    tag = page.locator(".opblock-tag", has_text="compute: flavors")
    tag.wait_for()

    def opened() -> bool:
        """Filtered operations open by themselves, unless all were there already."""
        if not flavors.is_visible() and tag.get_attribute("data-is-open") == "false":
            tag.click()
        return flavors.is_visible()

    wait_for("the operation is shown", opened)
    flavors.locator(".opblock-summary-control").click()
    flavors.get_by_role("button", name="Try it out").click()
    with page.expect_response(lambda answer: "/compute/v2.1/flavors" in answer.url) as response:
        flavors.get_by_role("button", name="Execute").click()
    assert response.value.status == 200
    assert response.value.request.headers["openstack-api-version"] == "compute 2.96"
    assert response.value.json()["flavors"]
    assert "token" not in page.url
    expect(flavors.locator(".live-responses-table td.response-col_status").last).to_have_text("200")
    token = response.value.request.headers["x-auth-token"]
    assert len(token) > 100
    assert token not in page.content()
    page.evaluate("scrollTo(0, 0)")
    picture(page, "try-it")
    page.get_by_label("Service").select_option("image")
    expect(page.get_by_label("Microversion")).to_be_hidden()
    expect(page.get_by_text("image: images").first).to_be_visible()
    assert watched.complaints == []
    context.close()
