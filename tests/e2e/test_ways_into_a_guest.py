"""Ways into one real guest that no network leads to: the screen and the serial line, for persons and programs, and the
portal's tunnel for SSH.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import Key, watch
from tests.e2e.pictures import picture
from tests.support.one_machine import CHECKOUT, PATIENCE, OneMachine, wait_for

pytestmark = [pytest.mark.deep, pytest.mark.libvirt]
NAME = "one guest"
"""With a space, which its host name cannot have."""
READ = "head -n 12 | sha256sum"
READ_THE_SCREEN = f"""#!/bin/sh
openvt -c 2 -s -- sh -c "{READ} > /dev/ttyS0; chvt 1"
echo reads the screen
"""
PROGRAM = CHECKOUT / ".venv/bin/novella"
DATA = os.urandom(1_000_000)
COLOURS = """() => {
    const canvas = document.querySelector('#console-vnc canvas');
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
}"""
CONTENT = "() => document.querySelector('#console-vnc canvas').toDataURL()"
STOPPING = re.compile(r"\(code: (?:4000|4409|4504)\b")
"""noVNC logs it if the page reconnects while the guest stops: the address is given, and when it is used, the guest's
end closes (4000), the guest does not run (4409), or its host cannot open the console any more (4504).
"""


PASTED = "".join(f'{number} "~!@#$%^&*()_+" {"x" * 40}\n' for number in range(12))
"""More than waits in front of a keyboard of QEMU's."""
DIGEST = hashlib.sha256(PASTED.encode()).hexdigest()


@dataclass(frozen=True)
class Server:
    """A guest, its addresses as the client shows them, and the password of its root."""

    id: str
    addresses: str
    password: str


@pytest.fixture(scope="module")
def server(cloud: OneMachine, key: Key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A guest that has booted, with the key, and with the cloud's default security group.

    It reads what is typed on its screen before it shows the login there.
    """
    script = tmp_path_factory.mktemp("user-data") / "script"
    script.write_text(READ_THE_SCREEN)
    cloud.openstack("keypair", "create", "--public-key", str(key.public), "guest-key")
    words = ["--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", "--key-name", "guest-key"]
    made = cloud.openstack_json("server", "create", *words, "--user-data", str(script), "--wait", NAME)
    wait_for(
        "the guest's prompt",
        lambda: {"login:", "reads the screen"} <= {*re.findall("login:|reads the screen", cloud.console(made["id"]))},
    )
    yield Server(str(made["id"]), str(made["addresses"]), str(made["adminPass"]))
    cloud.openstack("server", "delete", "--wait", str(made["id"]))
    cloud.openstack("keypair", "delete", "guest-key")


def log(cloud: OneMachine) -> str:
    """Return what the guest has written to its console."""
    return cloud.openstack("console", "log", "show", NAME)


# ----- by SSH through the portal --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where known hosts are kept."""
    return tmp_path_factory.mktemp("home")


def novella(cloud: OneMachine, home: Path, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "NOVELLA"))}
    variables = {"OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml"), "OS_CLOUD": "demo"}
    return subprocess.run(
        [PROGRAM, *arguments], input=data, capture_output=True, timeout=PATIENCE, env=kept | variables, check=False
    )


def ssh_options(home: Path) -> list[str]:
    return ["-o", f"UserKnownHostsFile={home / 'known_hosts'}", "-o", "HashKnownHosts=no", "-o", "BatchMode=yes"]


@pytest.mark.compat
def test_a_shell_in_a_guest_without_a_way_to_it(cloud: OneMachine, server: Server, key: Key, home: Path) -> None:
    """By its name, which has a space; what goes in and comes out is whole, and ends where it ended."""
    own = [*ssh_options(home), "--key", str(key.private)]
    done = novella(cloud, home, "ssh", NAME, *own, "--", "sha256sum; exit 3", data=DATA)
    assert (done.stdout.split()[:1], done.returncode) == ([hashlib.sha256(DATA).hexdigest().encode()], 3), done.stderr
    assert (home / "known_hosts").read_text().startswith(f"novella-{server.id} ")
    (entry,) = [
        row for row in cloud.openstack_json("server", "event", "list", server.id) if row["Action"] == "open_tunnel"
    ]
    assert entry["Action"] == "open_tunnel"


@pytest.mark.compat
def test_other_programs_take_it_as_their_proxy_command(cloud: OneMachine, server: Server, key: Key, home: Path) -> None:
    proxy = (
        f"ProxyCommand=env OS_CLIENT_CONFIG_FILE={cloud.data}/clouds.yaml OS_CLOUD=demo {PROGRAM} tunnel %h:%p --stdio"
    )
    options = ["-o", proxy, *ssh_options(home), "-o", f"HostKeyAlias=novella-{server.id}", "-i", str(key.private)]
    options += ["-o", "StrictHostKeyChecking=accept-new"]
    done = subprocess.run(
        ["ssh", *options, f"root@{server.id}", "hostname"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("one-guest\n", 0), done.stderr


@pytest.mark.compat
def test_a_port_where_nothing_listens_is_reported(cloud: OneMachine, server: Server, home: Path) -> None:
    done = novella(cloud, home, "tunnel", f"{server.id}:9", "--stdio")
    assert done.returncode == 6
    assert b"novella: The guest does not accept connections at port 9" in done.stderr


# ----- by screen and serial line --------------------------------------------------------------------------------------


def connected(page: Page, name: str) -> Page:
    expect(page.get_by_test_id("console-status")).to_have_attribute("data-state", "connected")
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert "token" not in page.url
    return page


def paste(page: Page, text: str) -> None:
    page.get_by_role("button", name="Paste").click()
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Type it").click()


def open_console(context: BrowserContext, cloud: OneMachine, server: Server, protocol: str) -> Page:
    page = watch(context, f"{cloud.url}/instances/{server.id}/").page
    with context.expect_page() as opened:
        page.get_by_test_id(f"open-console-{protocol}").click()
    return connected(opened.value, NAME)


@pytest.mark.e2e
def test_text_is_pasted_on_the_screen_whole(cloud: OneMachine, signed_in: BrowserContext, server: Server) -> None:
    screen = open_console(signed_in, cloud, server, "vnc")
    wait_for("the screen shows something", lambda: screen.evaluate(COLOURS) > 1)
    paste(screen, PASTED)
    wait_for("the whole text", lambda: DIGEST in log(cloud))


@pytest.mark.e2e
def test_text_is_pasted_on_the_serial_line_whole(cloud: OneMachine, signed_in: BrowserContext, server: Server) -> None:
    line = open_console(signed_in, cloud, server, "serial")
    shown = line.get_by_test_id("console-serial")
    paste(line, "\nroot\n")
    expect(shown).to_contain_text("Password:")
    paste(line, f"{server.password}\n")
    expect(shown).to_contain_text("~ #")
    paste(line, f"echo reads $((6 * 7)); {READ}; exit\n")
    expect(shown).to_contain_text("reads 42")
    paste(line, PASTED)
    expect(shown).to_contain_text(DIGEST)


def dial(url: str) -> tuple[socket.socket, bytes]:
    """Open a WebSocket as a console client does, without an origin; returns what came with the handshake."""
    parts = urlsplit(url)
    client = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=PATIENCE)
    key = base64.b64encode(os.urandom(16)).decode()
    client.sendall(
        f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Protocol: binary\r\n\r\n".encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += client.recv(4096)
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101")
    assert b"protocol: binary" in head.lower()
    return client, rest


FRAME = re.compile(rb"\x82[\x00-\x7d]")
"""The head of a short frame of bytes: a guest's words come in pieces."""


def read_until(client: socket.socket, read: bytes, expected: bytes) -> None:
    deadline = time.monotonic() + PATIENCE  # a guest that has just been started says nothing until it has booted
    while expected not in FRAME.sub(b"", read):
        assert time.monotonic() < deadline, read
        read += client.recv(65536)


@pytest.mark.compat
def test_the_command_line_shows_what_the_guest_writes(cloud: OneMachine, server: Server) -> None:
    banner = re.search(r"Novella guest: one-guest (\d+\.\d+\.\d+\.\d+)/", log(cloud))
    assert banner is not None
    assert f"'{banner[1]}'" in server.addresses


@pytest.mark.compat
def test_the_command_line_gets_addresses_that_programs_can_open(cloud: OneMachine, server: Server) -> None:
    screen = cloud.openstack_json("console", "url", "show", "--novnc", NAME)
    assert screen["url"].startswith(f"{cloud.url}/console/vnc?path=ws%2Fconsole%3Ftoken%3D")
    serial = cloud.openstack_json("console", "url", "show", "--serial", NAME)
    assert serial["url"].startswith(f"ws://127.0.0.1:{cloud.port}/ws/console?token=")
    client, read = dial(serial["url"])
    with client:
        client.sendall(b"\x82\x81\0\0\0\0\r")
        read_until(client, read, b"login: ")
    refused = cloud.client("console", "url", "show", "--spice", NAME)
    assert refused.returncode != 0
    assert "Unavailable console type spice-html5" in refused.stderr


@pytest.mark.e2e
def test_a_person_sees_the_screen_and_types_on_the_serial_line(
    cloud: OneMachine, signed_in: BrowserContext, server: Server
) -> None:
    """Until the guest is stopped: no other test comes after it."""
    watched = watch(signed_in, f"{cloud.url}/instances/{server.id}/")
    complaints = watched.complaints
    with signed_in.expect_page() as opened:
        watched.page.get_by_test_id("open-console-vnc").click()
    screen = opened.value
    screen.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    screen.on("pageerror", lambda error: complaints.append(str(error)))
    connected(screen, NAME)
    wait_for("the screen shows something", lambda: screen.evaluate(COLOURS) > 1)
    before = screen.evaluate(CONTENT)
    screen.locator("#console-vnc canvas").click()
    screen.keyboard.press("Enter")
    screen.keyboard.type("root")
    wait_for("what was typed is seen", lambda: screen.evaluate(CONTENT) != before)
    picture(screen, "console")

    with signed_in.expect_page() as opened:
        watched.page.get_by_test_id("open-console-serial").click()
    line = connected(opened.value, NAME)
    line.keyboard.press("Enter")
    rows = line.locator("#console-serial .xterm-rows > div")
    prompt = rows.filter(has_text=re.compile(r"\S")).last
    expect(prompt).to_contain_text(re.compile(r"login:\s*$"))
    line.keyboard.type("nobody-here")
    expect(prompt).to_contain_text("nobody-here")
    picture(line, "console-serial")
    for _ in "nobody-here":
        line.keyboard.press("Backspace")
    expect(prompt).to_contain_text(re.compile(r"login:\s*$"))

    line.reload()
    connected(line, NAME)
    with signed_in.expect_page() as opened:
        watched.page.get_by_test_id("open-console-serial").click()
    connected(opened.value, NAME)
    expect(line.get_by_test_id("console-status")).to_contain_text("another window")
    line.get_by_test_id("console-reconnect").click()
    connected(line, NAME)

    assert complaints == []

    cloud.openstack("server", "stop", NAME)
    for page in (screen, line):
        expect(page.get_by_test_id("console-status")).to_have_attribute("data-state", "ended")
    assert [complaint for complaint in complaints if not STOPPING.search(complaint)] == []
