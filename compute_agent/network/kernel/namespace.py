"""Network namespaces: creates, enters and removes them, and opens sockets in other namespaces."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_SHARED = 0x1000, 0x4000, 0x100000
FOLDER = Path("/run/netns")

_left: int | None = None

_libc = ctypes.CDLL(None, use_errno=True)


def enter(name: str) -> int:
    """Move this process into the network namespace ``name``. Return an open descriptor of the previous namespace.

    If the namespace does not exist, it is created with a name that ``ip netns`` shows. Only the calling thread moves,
    and threads that it starts later: call it before the process has threads. Raises OSError, and RuntimeError if there
    are threads.
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
    """Return the descriptor of the namespace that ``enter`` moved this process out of; None if it never moved."""
    return _left


def ensure(name: str) -> bool:
    """Create the namespace ``name`` unless it exists. Return whether it is new. A stale name is replaced."""
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
    """Turn the directory into a shared mount, as ``ip netns`` does: mounts in it are visible in all mount namespaces
    that contain it.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    at = os.fsencode(folder)
    if _libc.mount(None, at, None, MS_SHARED | MS_REC, None) != 0:  # it is no mount point yet
        _checked(_libc.mount(at, at, None, MS_BIND | MS_REC, None))
        _checked(_libc.mount(None, at, None, MS_SHARED | MS_REC, None))


def _make(path: Path) -> None:
    """Create a namespace and mount it at its name.

    The calling thread does this itself: a separate process would take twenty times as long, and a forked process would
    have copies of the locks that other threads hold.
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
    """Yield an open descriptor of the calling thread's namespace."""
    descriptor = current()
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened(name: str) -> Iterator[int]:
    """Yield an open descriptor of the namespace ``name``; raises OSError."""
    descriptor = os.open(FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Move the calling thread into the namespace ``name`` while the block runs. Raises OSError if it does not exist.

    Sockets and processes that the thread creates there stay in the namespace.
    """
    with held() as here, opened(name) as there:
        move(there)
        try:
            yield
        finally:
            move(here)


def listed(prefix: str) -> list[str]:
    """Return the namespaces of ``ip netns`` whose names begin with ``prefix``."""
    return sorted(path.name for path in FOLDER.glob("*") if path.name.startswith(prefix))


def remove(name: str) -> bool:
    """Remove the namespace's name and its veth pairs. Return whether it existed. The namespace itself ends with the
    last process in it, or later.
    """
    if not (FOLDER / name).exists():
        return False
    _remove_pairs(name)
    netns.remove(name)
    return True


def _remove_pairs(name: str) -> None:
    """Remove the veth pairs of a namespace: the kernel would remove their other ends only when the namespace ends."""
    with suppress(OSError), inside(name), IPRoute() as route:  # OSError: the name is not of a namespace
        for link in route.get_links():
            info = link.get_attr("IFLA_LINKINFO")
            if info is not None and info.get_attr("IFLA_INFO_KIND") == "veth":
                with suppress(NetlinkError):  # deleted concurrently
                    route.link("del", index=link["index"])


def open_in(original: int, factory: Callable[[], T]) -> T:
    """Call ``factory`` with the calling thread in the namespace ``original``, then move the thread back.

    A socket that ``factory`` opens stays in that namespace. ``factory`` must not switch threads, so it must not await.
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
