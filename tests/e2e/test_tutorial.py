"""The commands of docs/tutorial.md work in their order, and its pictures are of the pages that they lead to.

``WRITE_PICTURES=1 bin/test tests/e2e/test_tutorial.py`` takes the pictures again.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import enter, watch
from tests.e2e.pictures import picture
from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine

pytestmark = [pytest.mark.deep, pytest.mark.compat, pytest.mark.e2e, pytest.mark.timeout(1200)]
TUTORIAL = (CHECKOUT / "docs/tutorial.md").read_text()
IN_GUEST = re.compile(r"\bcurl\b|novella ssh")
LINKED = (".venv", "compute_agent", "manage.py")
"""Names of the checkout that the commands use, relative to the folder that they run in."""
END = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
"""Ends programs in the background when a command has failed."""


def blocks(title: str) -> list[str]:
    """Return the commands of the sections and subsections whose heading begins so."""
    section = re.search(rf"^(##+) {title}.*?(?=^##? |\Z)", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert section is not None
    result = re.findall(r"^```sh\n(.*?)^```", section[0], re.MULTILINE | re.DOTALL)
    assert result
    return [str(block) for block in result]


class Reader:
    """A person who types the commands of the tutorial in one folder."""

    def __init__(self, cloud: OneMachine, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        for name in LINKED:
            (folder / name).symlink_to(CHECKOUT / name)
        (folder / "bin").mkdir()
        if not cloud.simulate:  # floating IPs are reached from the namespace that stands for the machine
            program = folder / "bin/curl"
            program.write_text(f'#!/bin/sh\nexec ip netns exec {cloud.machine} /usr/bin/curl "$@"\n')
            program.chmod(0o755)

    def run(self, commands: list[str], user: str = "demo", **variables: str) -> str:
        """Run blocks in one shell; the address of the floating IP is kept for the next call."""
        kept = self.folder / "address"
        environment = ENVIRONMENT | self.cloud.settings | variables
        environment |= {
            "OS_CLIENT_CONFIG_FILE": str(self.cloud.data / "clouds.yaml"),
            "OS_CLOUD": user,
            "PATH": f"{self.folder / 'bin'}:{CHECKOUT / '.venv/bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "ADDRESS": kept.read_text().strip() if kept.exists() else "",
        }
        done = subprocess.run(
            ["bash", "-ec", "\n".join([END, *commands, 'echo "$ADDRESS" >address'])],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture
def pages(simulated: OneMachine, chromium: Browser) -> Iterator[Page]:
    context = enter(simulated, chromium, "demo")
    yield context.new_page()
    context.close()


@pytest.mark.libvirt
def test_the_web_server_answers(cloud: OneMachine, tmp_path: Path) -> None:
    """On a real guest, with everything that the tutorial does in it."""
    output = Reader(cloud, tmp_path).run(blocks("For users"))
    assert "Hello from the disk" in output
    assert output.index("Hello from the volume") > output.index("Hello from the disk")
    assert cloud.openstack_json("server", "list") == []
    assert cloud.openstack_json("volume", "list") == []


def show(page: Page, name: str, address: str, *shown: str) -> None:
    """Take a picture of a page as soon as it shows these texts."""
    page.goto(address)
    for text in shown:
        expect(page.get_by_text(text).filter(visible=True).first).to_be_visible()
    picture(page, name)


def test_users_see_what_they_have_created(simulated: OneMachine, pages: Page, tmp_path: Path) -> None:
    reader = Reader(simulated, tmp_path)
    *steps, removal = [block for block in blocks("For users") if not IN_GUEST.search(block)]
    reader.run(steps)
    url = simulated.url
    ids = {
        kind: simulated.openstack(*kind.split(), "show", "-f", "value", "-c", "id", name).strip()
        for kind, name in (("server", "web"), ("volume", "web-data"), ("security group", "web-access"))
    }
    show(pages, "network-map", f"{url}/network-map/", "web-net", "web-router")
    show(pages, "security-group", f"{url}/security-groups/{ids['security group']}/", "TCP 80 from anywhere")
    show(pages, "volumes", f"{url}/volumes/", "web-data", "web-restored")
    show(pages, "volume", f"{url}/volumes/{ids['volume']}/", "web-data")
    pages.goto(f"{url}/instances/{ids['server']}/network/")
    pages.get_by_test_id("reach").scroll_into_view_if_needed()
    expect(pages.get_by_test_id("reach")).to_contain_text("TCP 80")
    picture(pages, "who-can-reach")
    pages.goto(f"{url}/instances/launch/")
    pages.locator("#name").fill("web")
    expect(pages.get_by_text("fits").first).to_be_visible()
    picture(pages, "wizard")
    reader.run([removal])
    assert simulated.openstack_json("volume", "list") == []


def test_operators_add_a_host_and_copy_the_records(simulated: OneMachine, chromium: Browser, tmp_path: Path) -> None:
    context = enter(simulated, chromium, "admin")
    page = watch(context, f"{simulated.url}/hosts/").page
    page.get_by_role("link", name="Join a host").click()
    page.locator("[name=host_name]").fill("host-b")
    page.get_by_role("button", name="Create a join token").click()
    token = page.locator(".shown-once").inner_text().splitlines()[1]
    (tmp_path / "token").write_text(token)
    context.close()

    variables = {"STATE": str(tmp_path / "state"), "PORTAL": simulated.url, "DATA": str(simulated.data)}
    reader = Reader(simulated, tmp_path)
    output = reader.run(blocks("For operators: a second host"), "admin", **variables)
    assert re.search(r"nova-compute\s*\|\s*host-b", output)
    services = simulated.openstack_json("compute", "service", "list", cloud="admin")
    assert "host-b" not in {str(row["Host"]) for row in services}
    output = reader.run(blocks("For operators: a copy"), "admin", **variables)
    assert "all is well" in output
    assert (tmp_path / "copy.sqlite3").stat().st_size > 100_000
