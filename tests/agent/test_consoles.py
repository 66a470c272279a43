"""Consoles at the host: the fake driver's screen and line, what a call answers, and who has a line."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.calls import CallError, OpenConsoleCall
from compute_agent.engine.threads import Threads
from compute_agent.network.fake import FakeNetwork
from compute_agent.servers.calls import CallHandler
from compute_agent.servers.services import HostServices
from compute_agent.virt.errors import InstanceNotFoundError, UnsupportedError
from compute_agent.virt.fake.images import FakeImageCache
from tests.agent.cast import PATIENCE, make_spec
from tests.agent.watched_driver import WatchedDriver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[WatchedDriver]:
    driver = WatchedDriver(tmp_path)
    driver.init_host()
    yield driver
    driver.close()


@pytest.fixture
def spec(driver: WatchedDriver) -> InstanceSpec:
    """A guest that runs."""
    spec = make_spec()
    driver.define(spec, 1)
    driver.start(spec.uuid)
    return spec


def look(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE)
    client.connect(str(path))
    return client


def take(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = client.recv(count - len(data))
        assert piece, data
        data += piece
    return data


def test_a_screen_of_one_colour_that_changes_with_a_key(driver: WatchedDriver, spec: InstanceSpec) -> None:
    with contextlib.closing(look(driver.console_socket(spec.uuid, "vnc"))) as screen:
        assert take(screen, 12) == b"RFB 003.008\n"
        screen.sendall(b"RFB 003.008\n")
        assert take(screen, 2) == b"\x01\x01"
        screen.sendall(b"\x01")
        assert take(screen, 4) == b"\0\0\0\0"
        screen.sendall(b"\x01")
        width, height = struct.unpack("!HH", take(screen, 4))
        assert (width, height) == (640, 400)
        length = struct.unpack("!16xI", take(screen, 20))[0]
        assert take(screen, length) == b"web-1"
        screen.sendall(struct.pack("!BxHi", 2, 1, 2))
        screen.sendall(struct.pack("!BBHHHH", 3, 0, 0, 0, width, height))
        first = take(screen, 24)
        assert first[:4] == b"\0\0\0\x01"
        screen.sendall(struct.pack("!BBHHHH", 3, 1, 0, 0, width, height))
        screen.sendall(struct.pack("!BBxxI", 4, 1, 0xFF0D))
        assert take(screen, 24)[-4:] != first[-4:]


def test_a_line_prompts_and_echoes(driver: WatchedDriver, spec: InstanceSpec) -> None:
    with contextlib.closing(look(driver.console_socket(spec.uuid, "serial"))) as line:
        prompt = b"\r\nweb-1 login: "
        assert take(line, len(prompt)) == prompt
        line.sendall(b"root\r")
        assert take(line, 4 + len(prompt)) == b"root" + prompt


def test_consoles_end_with_the_power_and_come_back(driver: WatchedDriver, spec: InstanceSpec) -> None:
    path = driver.console_socket(spec.uuid, "serial")
    with contextlib.closing(look(path)) as line:
        take(line, 2)
        driver.stop(spec.uuid, 0)
        while line.recv(100):
            pass
    assert not path.exists()
    with pytest.raises(UnsupportedError):
        driver.console_socket(spec.uuid, "serial")
    driver.start(spec.uuid)
    look(driver.console_socket(spec.uuid, "serial")).close()
    driver.destroy(spec.uuid)
    with pytest.raises(InstanceNotFoundError):
        driver.console_socket(spec.uuid, "serial")
    with pytest.raises(InstanceNotFoundError):
        driver.console_socket("00000000-0000-4000-8000-00000000dead", "vnc")


def test_a_long_state_folder_has_consoles_too(tmp_path: Path) -> None:
    driver = WatchedDriver(tmp_path / ("long" * 20))
    (tmp_path / ("long" * 20)).mkdir()
    driver.init_host()
    spec = make_spec()
    driver.define(spec, 1)
    driver.start(spec.uuid)
    path = driver.console_socket(spec.uuid, "vnc")
    look(path).close()
    driver.close()
    assert not path.parent.exists()


async def test_a_host_without_a_way_out_says_so(driver: WatchedDriver, spec: InstanceSpec) -> None:
    threads = Threads(1)
    desk = CallHandler(HostServices(driver, FakeNetwork(), FakeImageCache(), threads))
    answer = await desk.answer(OpenConsoleCall(instance_id=spec.uuid, protocol="vnc", tunnel="t"))
    assert isinstance(answer, CallError)
    assert answer.code == "unsupported"
    threads.close()
    await asyncio.sleep(0)
