"""A person looks at the screen of a real guest and types on its serial line; programs do the same by the API."""

from __future__ import annotations

import base64
import os
import re
import socket
import time
from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def server(cloud: OneMachine) -> Iterator[str]:
    """A guest that has booted."""
    made = cloud.openstack_json(
        *(
            "server",
            "create",
            "--image",
            "novella-guest",
            "--flavor",
            "m1.nano",
            "--network",
            "demo-net",
            "--wait",
            NAME,
        )
    )
    wait_for("the guest's prompt", lambda: "login:" in cloud.openstack("console", "log", "show", NAME))
    yield str(made["id"])
    cloud.openstack("server", "delete", "--wait", NAME)


def connected(page: Page, name: str) -> Page:
    expect(page.get_by_test_id("console-status")).to_have_attribute("data-state", "connected")
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert "token" not in page.url
    return page


def test_a_person_sees_the_screen_and_types_on_the_serial_line(
    cloud: OneMachine, signed_in: BrowserContext, server: str
) -> None:
    watched = watch(signed_in, f"{cloud.url}/instances/{server}/")
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
def test_the_command_line_gets_addresses_that_programs_can_open(cloud: OneMachine, server: str) -> None:
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
