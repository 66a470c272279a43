"""A person makes an application credential in the browser, a program signs in with the downloaded file, and no more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import watch
from tests.e2e.pictures import picture
from tests.support.one_machine import CHECKOUT, ENVIRONMENT, OneMachine

pytestmark = [pytest.mark.e2e, pytest.mark.compat, pytest.mark.deep]


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


PAGES = (
    "/settings/",
    "/settings/password/",
    "/settings/sessions/",
    "/application-credentials/",
    "/api-access/",
    "/api-access/ec2/",
)


def issue(config: Path) -> subprocess.CompletedProcess[str]:
    """Get a token by the real command, with no other configuration than this file."""
    return subprocess.run(
        [CHECKOUT / ".venv/bin/openstack", "--os-cloud", "novella", "token", "issue", "-f", "value", "-c", "id"],
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT | {"OS_CLIENT_CONFIG_FILE": str(config)},
        check=False,
    )


def status_for(signed_in: BrowserContext, cloud: OneMachine, token: str) -> int:
    answer = signed_in.request.get(f"{cloud.url}/compute/v2.1/servers", headers={"X-Auth-Token": token})
    return answer.status


def make(page: Page, folder: Path) -> Path:
    """Fill in the form and save the file that the page offers."""
    page.get_by_label("Name", exact=True).fill("nightly-backup")
    page.get_by_label("Description").fill("Copies the images every night")
    page.get_by_role("checkbox", name="member").uncheck()
    page.get_by_label("Expires").select_option("at")
    expect(page.get_by_label("Time")).to_be_visible()
    page.get_by_label("Expires").select_option("30")
    expect(page.get_by_label("Time")).to_be_hidden()
    picture(page, "application-credential-new")
    page.get_by_test_id("credential-submit").click()
    expect(page.get_by_role("heading", name="nightly-backup is created")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_test_id("download-clouds").click()
    assert download.value.suggested_filename == "clouds.yaml"
    saved = folder / "clouds.yaml"
    download.value.save_as(saved)
    assert page.get_by_test_id("credential-secret").inner_text() in saved.read_text()
    assert page.get_by_test_id("credential-secret").inner_text() not in page.url
    page.locator("label", has_text="openrc").click()
    expect(page.get_by_test_id("openrc")).to_be_visible()
    return saved


def test_a_program_signs_in_until_its_credential_is_deleted(
    cloud: OneMachine, signed_in: BrowserContext, tmp_path: Path
) -> None:
    watched = watch(signed_in, f"{cloud.url}/application-credentials/create/")
    page = watched.page
    config = make(page, tmp_path)
    done = issue(config)
    assert done.returncode == 0, done.stderr
    token = done.stdout.strip()
    assert status_for(signed_in, cloud, token) == 200

    page.get_by_role("link", name="I have saved it").click()
    expect(page.get_by_role("cell", name="nightly-backup Copies")).to_be_visible()
    picture(page, "application-credentials")
    page.goto(f"{cloud.url}/settings/sessions/")
    expect(page.get_by_text("by nightly-backup")).to_be_visible()
    expect(page.get_by_text("This browser")).to_have_count(1)
    picture(page, "sessions")
    page.goto(f"{cloud.url}/application-credentials/")
    page.get_by_role("link", name="Delete nightly-backup").click()
    page.get_by_test_id("confirm").click()
    expect(page.get_by_text("nightly-backup was deleted.")).to_be_visible()
    assert status_for(signed_in, cloud, token) == 401
    refused = issue(config)
    assert refused.returncode != 0
    assert "401" in refused.stderr

    for path in PAGES:
        page.goto(f"{cloud.url}{path}")
        if path in {"/settings/", "/api-access/"}:
            picture(page, path.strip("/"))
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        page.set_viewport_size({"width": 1440, "height": 900})
    assert watched.complaints == []
