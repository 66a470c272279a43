"""A guest's console log, read by offsets and kept small.

QEMU appends for as long as the guest runs.  What is old is given back to the file system by punching a hole at the
beginning of the file: its length, and so every offset, only ever grows, and no byte the guest writes meanwhile is lost.
"""

import ctypes
import errno
import os
from pathlib import Path

from compute_agent.virt.driver import ConsoleChunk

KEEP = 1 << 20
"""Bytes kept at least."""
LIMIT = 2 << 20
"""Bytes on disk after which the log is cut to ``KEEP``."""
BLOCK = 1 << 16
FALLOC_FL_KEEP_SIZE = 0x01
FALLOC_FL_PUNCH_HOLE = 0x02

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def read(path: Path, offset: int | None, max_bytes: int) -> ConsoleChunk:
    """Read the log; the contract is ``ComputeDriver.console_output``.  An absent file reads as an empty one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ConsoleChunk(data=b"", start=0, end=0)
    try:
        end = os.fstat(descriptor).st_size
        first = _first_kept(descriptor, end)
        wanted = end - max_bytes if offset is None else offset
        start = min(max(wanted, first), end)
        data = os.pread(descriptor, min(max_bytes, end - start), start)
    finally:
        os.close(descriptor)
    return ConsoleChunk(data=data, start=start, end=start + len(data))


def trim(path: Path, keep: int = KEEP, limit: int = LIMIT) -> int:
    """Cut a log that takes more than ``limit`` bytes to about ``keep``; return the bytes given back."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        end = os.fstat(descriptor).st_size
        first = _first_kept(descriptor, end)
        until = (end - keep) // BLOCK * BLOCK
        if end - first <= limit or until <= first:
            return 0
        _punch(descriptor, until)
    finally:
        os.close(descriptor)
    return until - first


def _first_kept(descriptor: int, end: int) -> int:
    """Return the offset of the first byte that is still there."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole
            return end
        raise


def _punch(descriptor: int, until: int) -> None:
    if _libc.fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, until) == 0:
        return
    code = ctypes.get_errno()
    if code != errno.EOPNOTSUPP:
        raise OSError(code, os.strerror(code))
    # A file system without holes: everything so far goes, the offsets stay.
    size = os.fstat(descriptor).st_size
    os.truncate(descriptor, 0)
    os.truncate(descriptor, size)
