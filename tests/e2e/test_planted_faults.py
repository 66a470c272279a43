"""Faults planted in a running cloud: each appears on the operators' open page, and leads to what it is about."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.conftest import enter
from tests.support.one_machine import CHECKOUT, PATIENCE, OneMachine, running, wait_for
from up.health import free_port

pytestmark = [pytest.mark.deep, pytest.mark.e2e, pytest.mark.slow]

AGENT = "from compute_agent.start.main import command; command()"
AN_HOUR_LATE = f"import time; real = time.time; time.time = lambda: real() - 3600; {AGENT}"
NO_BACKUPS = "local=fake:?fault=snapshot:fatal"


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    """A cloud whose webhook has no listener, and whose host cannot copy volumes."""
    settings = {
        "NOVELLA_NOTIFICATION_WEBHOOK": f"http://127.0.0.1:{free_port()}/",
        "NOVELLA_AGENT_VOLUME_POOL": NO_BACKUPS,
        "NOVELLA_HEARTBEAT_INTERVAL": "2",
        "NOVELLA_HOST_DOWN_AFTER": "20",
    }
    with running(simulate=1, settings=settings) as cloud:
        try:
            yield cloud
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(cloud.runs[-1].process.pid, signal.SIGCONT)


@pytest.fixture
def page(cloud: OneMachine, chromium: Browser) -> Iterator[Page]:
    """The operators' first page."""
    context = enter(cloud, chromium, "admin")
    page = context.new_page()
    page.goto(f"{cloud.url}/cloud/")
    expect(page.locator("#live-mark")).to_have_attribute("data-state", "live")
    yield page
    context.close()


@pytest.fixture
def agents(cloud: OneMachine, tmp_path: Path) -> Iterator[Agents]:
    started = Agents(cloud, tmp_path)
    yield started
    for process in started.processes:
        process.kill()
        process.wait(PATIENCE)


class Agents:
    """Agents of simulated hosts that the test starts beside those of ``bin/up``."""

    def __init__(self, cloud: OneMachine, folder: Path) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._cloud, self._folder = cloud, folder

    def start(self, name: str, token: str, program: str = AGENT) -> subprocess.Popen[bytes]:
        where = ("--portal", self._cloud.url, "--state-dir", str(self._folder / name), "--machine-id", name)
        command = [sys.executable, "-c", program, "--driver", "fake", "--host", name, *where]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "NOVELLA_AGENT_JOIN_TOKEN": token}
        with Path(self._folder, f"{name}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        return self.processes[-1]


def join_token(page: Page, cloud: OneMachine, host: str) -> str:
    """Create a join token as an operator does."""
    form = page.context.new_page()
    form.goto(f"{cloud.url}/admin/hosts/host/join/")
    form.locator("[name=host_name]").fill(host)
    form.get_by_role("button", name="Create a join token").click()
    shown = form.locator(".shown-once").inner_text()
    form.close()
    return shown.splitlines()[1]


def is_up(cloud: OneMachine, host: str) -> bool:
    result = cloud.openstack_json("hypervisor", "list", cloud="admin")
    return (host, "up") in {(each["Hypervisor Hostname"], each["State"]) for each in result}


def kill_worker(cloud: OneMachine) -> None:
    """Kill the workers while their supervisor, which would start them again, is stopped."""
    run = cloud.runs[-1]
    worker = run.service("qworker")
    os.kill(run.process.pid, signal.SIGSTOP)
    os.killpg(worker, signal.SIGKILL)


def row_of(page: Page, *texts: str) -> Locator:
    row = page.locator("#cloud-now tr")
    for text in texts:
        row = row.filter(has_text=text)
    return row


def test_each_planted_fault_is_seen_on_the_open_page_and_leads_to_its_thing(
    cloud: OneMachine, page: Page, agents: Agents
) -> None:
    cloud.openstack("quota", "set", "--gigabytes", "2000", "demo", cloud="admin")
    cloud.openstack("volume", "create", "--size", "900", "huge")
    cloud.openstack("volume", "create", "--size", "1", "small")
    volumes = lambda: {each["Name"]: each["Status"] for each in cloud.openstack_json("volume", "list")}  # noqa: E731
    wait_for("the volumes are available", lambda: set(volumes().values()) == {"available"})
    cloud.openstack("volume", "backup", "create", "--name", "nightly", "small")
    tokens = {host: join_token(page, cloud, host) for host in ("late", "lost")}
    agents.start("late", tokens["late"], AN_HOUR_LATE)
    lost = agents.start("lost", tokens["lost"])
    agents.start("stranger", "no-such-token")
    cloud.openstack("flavor", "create", "--vcpus", "1", "--ram", "96", "--disk", "900000", "m1.vast", cloud="admin")
    create = ("server", "create", "--image", "novella-guest", "--flavor", "m1.vast", "--network", "demo-net")
    cloud.openstack(*create, "unlucky")
    wait_for("both hosts have joined", lambda: all(is_up(cloud, host) for host in tokens))
    lost.kill()
    faults = {
        "the host that is off": (row_of(page, "lost", "has not sent a heartbeat"), r"/hosts/[0-9a-f-]{36}/$"),
        "the full pool": (row_of(page, "local", "full:"), r"/pools/[0-9a-f-]{36}/$"),
        "the wrong clock": (row_of(page, "late", "behind the portal"), r"/hosts/[0-9a-f-]{36}/$"),
        "the dead webhook": (row_of(page, "webhook", "cannot be reached"), r"/admin/notifications/delivery/"),
        "the failed launch": (row_of(page, "unlucky"), r"/instances/[0-9a-f-]{36}/$"),
        "the refused agent": (row_of(page, "stranger", "was refused"), r"/hosts/#refused$"),
        "the failed backup": (row_of(page, "It failed"), r"/admin/volumes/backup/[0-9a-f-]{36}/change/$"),
    }
    for what, (row, _) in faults.items():
        expect(row, what).to_have_count(1)
    kill_worker(cloud)
    faults["the dead worker"] = row_of(page, "No worker is running"), r"/cloud/#work$"
    for what, (row, _) in faults.items():
        expect(row, what).to_have_count(1)
    for what, (row, address) in faults.items():
        row.get_by_role("link").first.click()
        expect(page, what).to_have_url(re.compile(address))
        page.goto(f"{cloud.url}/cloud/")
