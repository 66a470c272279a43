"""Measures the dashboard in Chromium, on a cloud of its own with simulated hosts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tools.bench import live
from tools.bench.cloud import ACTIVE_WITHIN, BenchError, Client, Cloud

HOSTS = 5
SERVERS = 200
AT_ONCE = 100
"""Most servers of a launch request."""
LAUNCHES = 20
WITHIN = 600.0
"""Seconds for everything that the workers do."""
KBITS, LATENCY = 400, 100
"""Of a slow mobile network: kbit/s, and milliseconds until an answer begins."""
WATCH = """() => {
    window.longest = 0; window.pause = 0; window.frames = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((each) => longest = Math.max(longest, each.duration)))
        .observe({ type: 'longtask' });
    document.addEventListener('novella:live', () => frames += 1);
    let before = performance.now();
    const draw = (now) => { pause = Math.max(pause, now - before); before = now; requestAnimationFrame(draw); };
    requestAnimationFrame(draw);
}"""
WATCHED = "() => [frames, longest, pause]"
DRAWN = """() => new Promise((resolve) => {
    const loaded = performance.getEntriesByType('navigation')[0].loadEventEnd;
    new PerformanceObserver((list) => resolve([list.getEntries().at(-1).startTime, loaded]))
        .observe({ type: 'largest-contentful-paint', buffered: true });
})"""

Line = tuple[str, str, str]
"""Name, figures and goal."""


def measure(folder: Path, say: Callable[[str], None]) -> list[Line]:
    cloud = Cloud(folder, HOSTS)
    try:
        say("bin/up on simulated hosts")
        cloud.up()
        cloud.allow("instances", "cores", "ram", "fixed_ips")
        say("events in the browser")
        pushed = live.push_delays(cloud, LAUNCHES)
        say(f"{SERVERS} servers")
        _launch(cloud)
        say("Chromium")
        with _signed_in(cloud) as (browser, context):
            lines = [_slow(browser, context, cloud), *_stopped(context.pages[0], cloud)]
        return [("state committed → in the browser", live.spread(pushed), "p95 under 50 ms"), *lines]
    finally:
        cloud.clean()


def _launch(cloud: Cloud) -> None:
    client = Client(cloud)
    for _ in range(SERVERS // AT_ONCE):
        wanted = client.wanted("many") | {"min_count": AT_ONCE, "max_count": AT_ONCE}
        client.call("POST", "/compute/v2.1/servers", {"server": wanted})
    deadline = time.monotonic() + WITHIN
    while (active := len(client.call("GET", "/compute/v2.1/servers?status=ACTIVE")["servers"])) < SERVERS:
        if time.monotonic() > deadline:
            raise BenchError(f"{active} of {SERVERS} servers are active")
        time.sleep(1)


@contextmanager
def _signed_in(cloud: Cloud) -> Iterator[tuple[Browser, BrowserContext]]:
    """Yield a browser, and a context of it in which the demo user has signed in."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        context = browser.new_context(viewport={"width": 1280, "height": 720})
        context.set_default_timeout(1000 * ACTIVE_WITHIN)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{cloud.port}/")
        page.get_by_label("User name").fill("demo")
        page.get_by_label("Password").fill(cloud.password("demo"))
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector("#main")
        yield browser, context
        browser.close()


def _slow(browser: Browser, signed_in: BrowserContext, cloud: Cloud) -> Line:
    """Measure the first visit of the overview on a slow network."""
    context = browser.new_context(storage_state=signed_in.storage_state())
    page = context.new_page()
    page.set_default_timeout(1000 * ACTIVE_WITHIN)
    network = {"offline": False, "latency": LATENCY, "downloadThroughput": KBITS * 125, "uploadThroughput": KBITS * 125}
    context.new_cdp_session(page).send("Network.emulateNetworkConditions", network)
    page.goto(f"http://127.0.0.1:{cloud.port}/", wait_until="load")
    page.wait_for_function("() => performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
    drawn, loaded = page.evaluate(DRAWN)
    context.close()
    what = f"overview at {KBITS} kbit/s and {LATENCY} ms, nothing cached"
    return what, f"drawn after {drawn / 1000:.1f} s, loaded after {loaded / 1000:.1f} s", "4 s"


def _stopped(page: Page, cloud: Cloud) -> list[Line]:
    """Stop all servers from the list, and watch how the page keeps up with the events."""
    page.add_init_script(f"({WATCH})()")
    page.goto(f"http://127.0.0.1:{cloud.port}/instances/?size=100")
    page.wait_for_selector("#live-mark[data-state=live]")
    page.get_by_label("Select all").check()
    page.locator("[name=selection]").check()
    page.locator(".bulk").get_by_role("button", name="Stop").click()
    page.locator("#dialog").get_by_test_id("confirm").wait_for()
    with page.expect_response(lambda answer: answer.request.method == "POST" and "/bulk/" in answer.url) as answered:
        page.locator("#dialog").get_by_test_id("confirm").click()
    began = time.monotonic()
    answered.value.finished()
    timing = answered.value.request.timing
    page.locator("#tray", has_text=f"Stop: {SERVERS} instances").wait_for(timeout=1000 * WITHIN)
    seconds = time.monotonic() - began
    frames, longest, pause = page.evaluate(WATCHED)
    shown = f"{frames} frames in {seconds:.0f} s, longest task {longest:.0f} ms, longest pause {pause:.0f} ms"
    return [
        (f"stop of {SERVERS} instances → answer", f"{timing['responseEnd'] - timing['requestStart']:.0f} ms", "300 ms"),
        ("their events in an open list of 100", shown, "no task over 200 ms"),
    ]
