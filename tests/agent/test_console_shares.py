"""A host's tunnels and readers: nobody has all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from compute_agent.engine.threads import Threads
from compute_agent.link import console_dial
from compute_agent.link.console_dial import ConsoleDialer
from compute_agent.link.dial import here
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import ConsoleBusyError, UnsupportedError


async def nothing() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


@pytest.fixture
async def dialer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConsoleDialer]:
    """One whose dials last until it is closed; it has three of each thing, of which a share has two."""
    monkeypatch.setattr(console_dial, "MOST_TUNNELS", 3)
    monkeypatch.setattr(console_dial, "MOST_READERS", 3)
    monkeypatch.setattr(console_dial, "MOST_OF_ONE", 2)

    @contextlib.asynccontextmanager
    async def dials(*_: object) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(ConsoleDialer, "_dialled", dials)
    threads = Threads(1)
    dialer = ConsoleDialer(AgentSettings(host="h1", state_dir=tmp_path, driver="fake"), here, threads)
    yield dialer
    await dialer.close()
    threads.close()


@pytest.fixture
async def guest(tmp_path: Path) -> AsyncIterator[Path]:
    """The socket of a guest."""

    visits: list[asyncio.Task[object] | None] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(asyncio.current_task())
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_unix_server(silent, str(tmp_path / "vnc")):
        yield tmp_path / "vnc"
        await asyncio.gather(*filter(None, visits))


async def test_one_project_has_a_part_of_the_readers(dialer: ConsoleDialer) -> None:
    for _ in range(2):
        dialer.follow("t", nothing(), "project one")
    with pytest.raises(ConsoleBusyError):
        dialer.follow("t", nothing(), "project one")
    dialer.follow("t", nothing(), "project two")
    with pytest.raises(ConsoleBusyError):  # the host's own are gone
        dialer.follow("t", nothing(), "project three")


async def test_one_user_has_a_part_of_the_tunnels(guest: Path, dialer: ConsoleDialer) -> None:
    for _ in range(2):
        await dialer.open("t", guest, alone=False, share="user one")
    with pytest.raises(ConsoleBusyError):
        await dialer.open("t", guest, alone=False, share="user one")
    await dialer.open("t", guest, alone=False, share="user two")
    dialer.follow("t", nothing(), "user one")  # another thing


async def test_what_has_ended_or_never_began_is_given_back(guest: Path, dialer: ConsoleDialer, tmp_path: Path) -> None:
    for _ in range(5):
        with pytest.raises(UnsupportedError):
            await dialer.open("t", tmp_path / "none", alone=True, share="user one")
    for _ in range(2):
        for _ in range(2):
            dialer.follow("t", nothing(), "project one")
            await dialer.open("t", guest, alone=False, share="user one")
        await dialer.close()
        await asyncio.sleep(0)


async def test_a_link_in_the_place_of_a_guests_socket_leads_nowhere(
    guest: Path, dialer: ConsoleDialer, tmp_path: Path
) -> None:
    """Else a guest that broke out could let the host talk to its own services for it."""
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(guest)
    file.touch()
    for path in (link, file):
        with pytest.raises(UnsupportedError):
            await dialer.open("t", path, alone=False)
    await dialer.open("t", guest, alone=False)
