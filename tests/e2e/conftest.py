"""Clouds of bin/up for end-to-end tests: one with real guests, and one with simulated hosts for what needs no guest."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support.forms import SUPERSEDED
from tests.support.guest_image import guest_image
from tests.support.one_machine import PATIENCE, OneMachine, running

SHORTCUT_WITHIN = 1.2
"""Seconds from the first key of a shortcut to its last one (static/js/page.js)."""


@pytest.fixture(scope="session", name="cloud")
def _real_cloud() -> Iterator[OneMachine]:
    """A running cloud with real guests, without a way out of their namespace."""
    # Tests of hosts may be building it as well: the cloud takes what is kept.
    guest_image()
    with running(settings={"NOVELLA_AGENT_NO_UPLINK": "1"}) as cloud:
        yield cloud


@pytest.fixture(scope="session")
def simulated() -> Iterator[OneMachine]:
    """A running cloud whose hosts boot nothing; a module that needs no guest makes it its ``cloud``."""
    with running(simulate=2) as cloud:
        yield cloud


@pytest.fixture(scope="session")
def restoring() -> Iterator[OneMachine]:
    """A running cloud of three hosts that boot nothing, where deleted servers can be restored."""
    settings = {"NOVELLA_RECLAIM_INSTANCE_INTERVAL": "3600", "NOVELLA_SHELVED_OFFLOAD_TIME": "-1"}
    with running(simulate=3, settings=settings) as cloud:
        yield cloud


@dataclass(frozen=True)
class Key:
    """An SSH key pair of the test's."""

    private: Path
    public: Path


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    private = tmp_path_factory.mktemp("ssh") / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "e2e", "-f", private], check=True)
    return Key(private, private.with_suffix(".pub"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for one file: its event loop is the thread's own, and network code of later files needs that thread."""
    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        browser.on("context", lambda context: context.set_default_timeout(1000 * PATIENCE))
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page and everything on it that should not have happened."""

    page: Page
    complaints: list[str]


def enter(cloud: OneMachine, chromium: Browser, user: str) -> BrowserContext:
    """Open a browser of its own in which the user has signed in; the caller closes it."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(cloud.url)
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(cloud.password(user))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{cloud.url}/")
    page.close()
    return context


@pytest.fixture
def signed_in(cloud: OneMachine, chromium: Browser) -> Iterator[BrowserContext]:
    """A browser in which the demo user has signed in."""
    context = enter(cloud, chromium, "demo")
    yield context
    context.close()


def press(page: Page, *keys: str) -> None:
    """Press the keys of a shortcut; from the beginning if this machine was too slow for one."""
    start = page.url
    for _ in range(20):
        began = time.monotonic()
        for key in keys:
            page.keyboard.press(key)
        if time.monotonic() - began < SHORTCUT_WITHIN:
            return
        page.goto(start)
    raise AssertionError(f"{keys} were never pressed within {SHORTCUT_WITHIN} s")


def watch(context: BrowserContext, url: str) -> Watched:
    """Open a page and note console errors, failed and foreign requests on it."""
    page = context.new_page()
    watched = Watched(page, [])
    page.on(
        "console",
        lambda message: (
            watched.complaints.append(message.text)
            if message.type == "error" and not message.text.startswith(SUPERSEDED)
            else None
        ),
    )
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((url.split("//")[0] + "//" + url.split("/")[2], "data:", "blob:"))
            else watched.complaints.append(f"foreign request: {request.url}")
        ),
    )
    page.goto(url)
    return watched
