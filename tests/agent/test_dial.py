"""Connections of the agent to its portal."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from compute_agent.link.dial import dial_in_thread


async def test_who_is_cancelled_while_it_dials_leaves_no_connection_open() -> None:
    opened: list[socket.socket] = []
    dialling, go_on = threading.Event(), threading.Event()

    def opener(open_socket: Callable[[], socket.socket]) -> socket.socket:
        dialling.set()
        assert go_on.wait(60)
        opened.append(open_socket())
        return opened[0]

    with socket.create_server(("127.0.0.1", 0)) as portal, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{portal.getsockname()[1]}"
        dialled = asyncio.create_task(dial_in_thread(pool, url, opener))
        while not dialling.is_set():
            await asyncio.sleep(0.01)
        dialled.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await dialled
    assert [each.fileno() for each in opened] == [-1]
