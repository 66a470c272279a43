"""An operator makes a project and a user, sets a quota, and takes the role away while the user looks on."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.conftest import watch
from tests.e2e.pictures import picture
from tests.support.one_machine import OneMachine

pytestmark = [pytest.mark.deep, pytest.mark.e2e]


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


LISTS = ("projects", "users", "groups", "roles", "domains")


def sign_in(page: Page, cloud: OneMachine, name: str, password: str) -> None:
    page.goto(cloud.url)
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{cloud.url}/")


@pytest.fixture
def at_operator(cloud: OneMachine, chromium: Browser) -> Iterator[BrowserContext]:
    """A browser in which the seeded operator has signed in."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    sign_in(page, cloud, "admin", cloud.password("admin"))
    page.close()
    yield context
    context.close()


@pytest.fixture
def elsewhere(chromium: Browser) -> Iterator[Page]:
    """A browser of somebody else."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def make_project(page: Page) -> None:
    page.get_by_role("link", name="New project").click()
    page.get_by_label("Name", exact=True).fill("laboratory")
    page.get_by_label("Description").fill("For trying things")
    page.get_by_role("button", name="Create project").click()
    expect(page.get_by_role("heading", name="laboratory")).to_be_visible()


def make_user(page: Page) -> str:
    """Make a user with a role on the project whose page this is; return the password that is shown once."""
    page.locator("#members").get_by_role("link", name="New user").click()
    page.get_by_label("User name").fill("ada")
    expect(page.get_by_label("Default project")).to_have_value("laboratory")
    expect(page.get_by_label("The password")).to_be_hidden()
    page.get_by_role("button", name="Create user").click()
    expect(page.get_by_role("heading", name="ada is created")).to_be_visible()
    picture(page, "user-made", hidden=[page.get_by_test_id("password")])
    return page.get_by_test_id("password").inner_text()


def limit_cores(page: Page, cores: str) -> None:
    """Try a word for a number, then the number."""
    page.get_by_role("link", name="Change quotas").click()
    line = page.locator("#quota-cores")
    expect(line.get_by_role("textbox")).to_be_hidden()
    for typed in ("two", cores):
        line.get_by_text("Limit", exact=True).click()
        line.get_by_role("textbox").fill(typed)
        if typed == "two":
            page.get_by_test_id("save-quotas").click()
            expect(page.locator("#limit-cores_error")).to_be_visible()
    page.get_by_test_id("save-quotas").click()
    expect(page.get_by_role("img", name=f"vCPUs: 0 of {cores}")).to_be_visible()


def launch(page: Page, cloud: OneMachine, name: str) -> None:
    page.goto(f"{cloud.url}/instances/launch/")
    page.locator("#name").fill(name)
    page.locator("label", has_text="m1.nano").click()
    page.locator("[name=password]").uncheck()  # it would be shown once on a page of its own
    page.get_by_test_id("launch-submit").click()


def test_an_operator_lets_somebody_in_and_out(cloud: OneMachine, at_operator: BrowserContext, elsewhere: Page) -> None:
    watched = watch(at_operator, f"{cloud.url}/projects/")
    page = watched.page
    make_project(page)
    project = page.url
    password = make_user(page)
    page.goto(project)
    expect(page.locator("#members")).to_contain_text("ada")
    limit_cores(page, "2")

    sign_in(elsewhere, cloud, "ada", password)
    expect(elsewhere.get_by_role("heading", name="laboratory")).to_be_visible()
    expect(elsewhere.get_by_role("link", name="Users")).to_have_count(0)
    for name in ("first", "second"):
        launch(elsewhere, cloud, name)
        elsewhere.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
    launch(elsewhere, cloud, "third")
    expect(elsewhere.locator("#quote")).to_contain_text("vCPUs")
    expect(elsewhere.locator("#quote .notice").first).to_contain_text("2 of 2")
    assert elsewhere.url.endswith("/instances/launch/")

    page.goto(project)
    expect(page.get_by_role("img", name=re.compile("vCPUs: 2 of 2"))).to_be_visible()
    picture(page, "project")
    page.goto(f"{project}quotas/")
    picture(page, "quotas")
    page.goto(project)
    page.get_by_test_id("remove-ada").wait_for()
    elsewhere.goto(f"{cloud.url}/instances/")
    expect(elsewhere.locator("#live-mark[data-state=live]").first).to_be_visible()
    page.get_by_test_id("remove-ada").click()
    page.get_by_test_id("confirm").click()
    expect(page.locator("#toasts")).to_contain_text("The roles of ada on laboratory were revoked.")
    elsewhere.wait_for_url(re.compile("/auth/login/"))
    assert [text for text in watched.complaints if "status of 422" not in text] == []

    page.goto(f"{cloud.url}/projects/")
    picture(page, "projects")
    fit_a_phone(page, [project, f"{project}quotas/", *(f"{cloud.url}/{name}/" for name in LISTS)])
    clean_up(cloud)


def fit_a_phone(page: Page, addresses: list[str]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for address in addresses:
        page.goto(address)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{address} is {width} px wide"


def clean_up(cloud: OneMachine) -> None:
    """Leave the cloud to the other tests as it was."""
    for name in ("first", "second"):
        cloud.openstack("server", "delete", "--wait", "--all-projects", name, cloud="admin")
