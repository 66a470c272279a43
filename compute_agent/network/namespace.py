"""Network namespaces: enter one for good, and open a single socket in the one the process came from."""

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyroute2 import netns

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
FOLDER = Path("/run/netns")

_left: int | None = None

_libc = ctypes.CDLL(None, use_errno=True)


def enter(name: str) -> int:
    """Move this process into the network namespace ``name``; return an open descriptor of the one it leaves.

    The namespace is made when absent, by the name that ``ip netns`` uses.  Only the calling thread moves, and the
    threads it starts later: call it before the process has any.  Raises OSError, RuntimeError when there are threads.
    """
    if threading.active_count() > 1:
        raise RuntimeError("A process with threads cannot change its network namespace.")
    global _left
    original = current()
    ensure(name)
    descriptor = os.open(FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        move(descriptor)
    finally:
        os.close(descriptor)
    _left = original
    return original


def left() -> int | None:
    """Return the descriptor of the namespace that ``enter`` moved this process out of; None when it never moved."""
    return _left


def ensure(name: str) -> None:
    """Make the namespace ``name`` unless it is there; a name that stands for no namespace any more is made anew."""
    path = FOLDER / name
    if path.exists():
        if path.stat().st_dev == Path("/proc/self/ns/net").stat().st_dev:
            return
        path.unlink()
    netns.create(name)


def current() -> int:
    """Return an open descriptor of the calling thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def move(descriptor: int) -> None:
    """Move the calling thread into the namespace behind ``descriptor``; raises OSError."""
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def open_in(original: int, factory: Callable[[], T]) -> T:
    """Call ``factory`` with the calling thread in the namespace ``original``, and come back.

    What it opens (a socket) stays in that namespace.  ``factory`` must not switch threads, so it must not await.
    """
    here = current()
    try:
        move(original)
        try:
            return factory()
        finally:
            move(here)
    finally:
        os.close(here)
