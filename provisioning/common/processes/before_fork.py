"""Prepares a process that loads the program once and then forks others: they share its memory, and inherit no threads
or open database connections.
"""

import ctypes
import gc
import os
from collections.abc import Callable

_BLOCKS = (16384, 8192, *range(4096, 1024, -64), *range(1024, 8, -16))
"""Sizes in bytes, from large to small, because a small block may occupy a part of a large gap."""


class _MallInfo(ctypes.Structure):
    """The result of glibc's ``mallinfo2``; ``keepcost`` are the free bytes at the end of the heap."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def in_child(work: Callable[[], None]) -> str:
    """Run ``work`` in a child process; return the text of its exception, or an empty text.

    The calling process must have a single thread.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the parent handles the error
            text = str(error) or type(error).__name__
        os.write(writing, text.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read().decode(errors="replace")
    os.waitpid(child, 0)
    return text


def keep_shared() -> None:
    """Arrange this process's memory so that children change as few of its pages as possible; called directly before the
    forks.

    A page is copied for each child that writes to it. Garbage collections write to all objects that are not frozen, and
    new blocks fill the gaps between old ones: an SQLite connection, whose schema consists of thousands of small blocks,
    wrote to some thousand pages that it otherwise shared (3 MiB for each child).
    """
    gc.collect()
    gc.freeze()
    _fill_gaps()


def _fill_gaps() -> None:
    """Occupy the gaps in the heap of malloc permanently; they are less than 1 MiB. Without glibc nothing is done."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return
    libc.mallinfo2.restype = _MallInfo
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    for size in _BLOCKS:
        at_the_end = libc.mallinfo2().keepcost
        while libc.malloc(size) and libc.mallinfo2().keepcost >= at_the_end:
            at_the_end = libc.mallinfo2().keepcost
