"""Network namespaces: enter one for good, and open a single socket in the one the process came from."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pyroute2 import netns

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_SHARED = 0x1000, 0x4000, 0x100000
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


def ensure(name: str) -> bool:
    """Make the namespace ``name`` unless it is there, and say so; a name that stands for none any more is made anew."""
    path = FOLDER / name
    if path.exists():
        if path.stat().st_dev == Path("/proc/self/ns/net").stat().st_dev:
            return False
        path.unlink()
    _share(FOLDER)
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0))
    try:
        _make(path)
    except OSError:
        path.unlink()
        raise
    return True


def _share(folder: Path) -> None:
    """Let what is mounted in the folder be seen by all mount namespaces that have it, as ``ip netns`` does."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    at = os.fsencode(folder)
    if _libc.mount(None, at, None, MS_SHARED | MS_REC, None) != 0:  # it is no mount point yet
        _checked(_libc.mount(at, at, None, MS_BIND | MS_REC, None))
        _checked(_libc.mount(None, at, None, MS_SHARED | MS_REC, None))


def _make(path: Path) -> None:
    """Make a namespace and give it a name.

    The calling thread does so itself: a process of its own takes twenty times as long, and a fork copies this process's
    locks as its other threads hold them.
    """
    with held() as here:
        _checked(_libc.unshare(CLONE_NEWNET))
        try:
            _checked(_libc.mount(b"/proc/thread-self/ns/net", os.fsencode(path), None, MS_BIND, None))
        finally:
            move(here)


def _checked(result: int) -> None:
    """Raise OSError for a system call that failed."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def current() -> int:
    """Return an open descriptor of the calling thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def move(descriptor: int) -> None:
    """Move the calling thread into the namespace behind ``descriptor``; raises OSError."""
    _checked(_libc.setns(descriptor, CLONE_NEWNET))


@contextmanager
def held() -> Iterator[int]:
    """Give an open descriptor of the calling thread's namespace, for as long as the block lasts."""
    descriptor = current()
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened(name: str) -> Iterator[int]:
    """Give an open descriptor of the namespace ``name``, for as long as the block lasts; raises OSError."""
    descriptor = os.open(FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Let the calling thread be in the namespace ``name``, and bring it back; raises OSError when there is none.

    What it opens or starts meanwhile stays there.
    """
    with held() as here, opened(name) as there:
        move(there)
        try:
            yield
        finally:
            move(here)


def listed(prefix: str) -> list[str]:
    """List the namespaces that ``ip netns`` knows and whose names begin with ``prefix``."""
    return sorted(path.name for path in FOLDER.glob("*") if path.name.startswith(prefix))


def remove(name: str) -> bool:
    """Let go of the namespace; it ends with the last process in it.  Say whether it was there."""
    if not (FOLDER / name).exists():
        return False
    netns.remove(name)
    return True


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
