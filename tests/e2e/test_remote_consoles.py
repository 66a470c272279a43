"""A person looks at the screen of a real guest and types on its serial line; programs do the same by the API."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import watch
from tests.e2e.test_browser_launch import picture
from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.libvirt]
NAME = "console-guest"
COLOURS = """() => {
    const canvas = document.querySelector('#console-vnc canvas');
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
}"""
CONTENT = "() => document.querySelector('#console-vnc canvas').toDataURL()"


PASTED = "".join(f'{number} "~!@#$%^&*()_+" {"x" * 40}\n' for number in range(12))
"""More than waits in front of a keyboard of QEMU's."""
DIGEST = hashlib.sha256(PASTED.encode()).hexdigest()
READ = "head -n 12 | sha256sum"
READ_THE_SCREEN = f"""#!/bin/sh
openvt -c 2 -s -- sh -c "{READ} > /dev/ttyS0; chvt 1"
echo reads the screen
"""


@dataclass(frozen=True)
class Server:
    """A guest, and the password of its root."""

    id: str
    password: str


@pytest.fixture(scope="module")
def server(cloud: OneMachine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A guest that has booted; it reads what is typed on its screen before it shows the login there."""
    script = tmp_path_factory.mktemp("user-data") / "script"
    script.write_text(READ_THE_SCREEN)
    words = ("--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", "--user-data", str(script))
    made = cloud.openstack_json("server", "create", *words, "--wait", NAME)
    wait_for(
        "the guest's prompt",
        lambda: {"login:", "reads the screen"} <= {*re.findall("login:|reads the screen", log(cloud))},
    )
    yield Server(str(made["id"]), str(made["adminPass"]))
    cloud.openstack("server", "delete", "--wait", NAME)


def log(cloud: OneMachine) -> str:
    return cloud.openstack("console", "log", "show", NAME)


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


@pytest.mark.deep
def test_text_is_pasted_on_the_screen_whole(cloud: OneMachine, signed_in: BrowserContext, server: Server) -> None:
    screen = open_console(signed_in, cloud, server, "vnc")
    wait_for("the screen shows something", lambda: screen.evaluate(COLOURS) > 1)
    paste(screen, PASTED)
    wait_for("the whole text", lambda: DIGEST in log(cloud))


@pytest.mark.deep
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


def test_a_person_sees_the_screen_and_types_on_the_serial_line(
    cloud: OneMachine, signed_in: BrowserContext, server: Server
) -> None:
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
    picture(screen, "console-screen")

    with signed_in.expect_page() as opened:
        watched.page.get_by_test_id("open-console-serial").click()
    line = connected(opened.value, NAME)
    line.keyboard.press("Enter")
    shown = line.get_by_test_id("console-serial")
    expect(shown).to_contain_text(re.compile(r"login: *"))
    line.keyboard.type("nobody-here")
    expect(shown).to_contain_text("nobody-here")
    picture(line, "console-serial")
    for _ in "nobody-here":
        line.keyboard.press("Backspace")
    expect(shown).not_to_contain_text("nobody")

    line.reload()
    connected(line, NAME)
    with signed_in.expect_page() as opened:
        watched.page.get_by_test_id("open-console-serial").click()
    connected(opened.value, NAME)
    expect(line.get_by_test_id("console-status")).to_contain_text("another window")
    line.get_by_test_id("console-reconnect").click()
    connected(line, NAME)

    cloud.openstack("server", "stop", NAME)
    for page in (screen, line):
        expect(page.get_by_test_id("console-status")).to_have_attribute("data-state", "ended")
    cloud.openstack("server", "start", NAME)
    wait_for("the guest runs", lambda: cloud.openstack_json("server", "show", NAME)["status"] == "ACTIVE")
    assert complaints == []


def dial(url: str) -> tuple[socket.socket, bytes]:
    """Open a WebSocket as a console client does, without an origin; returns what came with the handshake."""
    parts = urlsplit(url)
    client = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=90)
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


def read_until(client: socket.socket, read: bytes, wanted: bytes) -> None:
    deadline = time.monotonic() + 90  # a guest that has just been started says nothing until it has booted
    while wanted not in FRAME.sub(b"", read):
        assert time.monotonic() < deadline, read
        read += client.recv(65536)


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
