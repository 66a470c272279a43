"""How much memory the frames of one socket take while nobody has handled them."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from portal.web import websockets

FRAME = b"x" * (1 << 20)
"""The largest that Daphne takes."""


@pytest.fixture
def dropped() -> list[bool]:
    return []


@pytest.fixture
def link(dropped: list[bool]) -> Any:
    """A socket whose frames wait."""
    made: Any = object.__new__(websockets.BoundedWebSocket)
    made.application_queue = queue.Queue()
    made.path = b"/ws/agent"
    made.client_addr = None
    made.muted = False
    made.last_ping = 0.0
    made.admit()  # it has shown a host's credential
    made.dropConnection = lambda abort: dropped.append(abort)
    return made


def test_large_frames_that_wait_are_bounded(link: Any, dropped: list[bool]) -> None:
    for _ in range(100):
        link.onMessage(FRAME, True)
    assert dropped
    assert link.application_queue.qsize() * len(FRAME) <= websockets.MOST_UNHANDLED_BYTES


def test_of_a_link_without_a_credential_less_is_kept(link: Any, dropped: list[bool]) -> None:
    link._admitted = False
    for _ in range(100):
        link.onMessage(FRAME[: websockets.MOST_SAID // 4], True)
    assert dropped
    assert link.application_queue.qsize() == 4


def test_large_frames_that_are_handled_are_not(link: Any, dropped: list[bool]) -> None:
    for _ in range(100):
        link.onMessage(FRAME, True)
        link.application_queue.get_nowait()
    assert not dropped
