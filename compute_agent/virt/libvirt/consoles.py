"""Observation of a guest: its console log, its sockets, its counters."""

import ctypes
import errno
import os
from pathlib import Path

from compute_agent.contract.calls import Diagnostics
from compute_agent.virt.driver import ConsoleChunk
from compute_agent.virt.errors import InstanceNotFoundError, UnsupportedError
from compute_agent.virt.libvirt import counters
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.domains import Domains

LOG_KEPT = 1 << 20
"""Minimum number of bytes kept."""
LOG_LIMIT = 2 << 20
"""Bytes on disk above which the log is cut to ``LOG_KEPT``."""
BLOCK = 1 << 16
FALLOC_FL_KEEP_SIZE = 0x01
FALLOC_FL_PUNCH_HOLE = 0x02

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class ConsoleOperations(Domains):
    """Console logs and console sockets of guests."""

    def console_output(self, uuid: str, offset: int | None, max_bytes: int) -> ConsoleChunk:
        paths = self._paths.instance(uuid)
        if not paths.folder.is_dir():
            raise InstanceNotFoundError("There is no such guest on this host.")
        return read_log(paths.console_log, offset, max_bytes)

    def console_socket(self, uuid: str, protocol: str) -> Path:
        domain = self._domain(uuid)
        paths = self._paths.instance(uuid)
        path = {"vnc": paths.vnc_socket, "serial": paths.serial_socket()}.get(protocol)
        with translated("open the console"):
            if path is None or not domain.isActive():
                raise UnsupportedError("The guest has no such console now.")
        return path

    def diagnostics(self, uuid: str) -> Diagnostics:
        domain = self._domain(uuid)
        with translated("count what the guest did"):
            return counters.diagnose(
                self._hypervisor.get(),
                domain,
                self._state(domain),
                hypervisor="kvm" if self._virt_type == "kvm" else "qemu",
                started=self._states.running_since(uuid),
            )


def read_log(path: Path, offset: int | None, max_bytes: int) -> ConsoleChunk:
    """Read the log as specified by ``ComputeDriver.console_output``. A missing file is read as empty."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ConsoleChunk(data=b"", start=0, end=0)
    try:
        end = os.fstat(descriptor).st_size
        first = _first_kept(descriptor, end)
        requested = end - max_bytes if offset is None else offset
        start = min(max(requested, first), end)
        data = os.pread(descriptor, min(max_bytes, end - start), start)
    finally:
        os.close(descriptor)
    return ConsoleChunk(data=data, start=start, end=start + len(data))


def trim_log(path: Path, keep: int = LOG_KEPT, limit: int = LOG_LIMIT) -> int:
    """Cut a log of more than ``limit`` bytes to about ``keep``; return the bytes released.

    QEMU appends to the log while the guest runs. Old text is removed by punching a hole at the beginning of the file.
    The length of the file never decreases, so offsets stay valid and no concurrent output is lost.
    """
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
    """Return the offset of the first byte that is kept."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # only a hole
            return end
        raise


def _punch(descriptor: int, until: int) -> None:
    if _libc.fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, until) == 0:
        return
    code = ctypes.get_errno()
    if code != errno.EOPNOTSUPP:
        raise OSError(code, os.strerror(code))
    # A file system without holes: all previous output is discarded, the offsets stay.
    size = os.fstat(descriptor).st_size
    os.truncate(descriptor, 0)
    os.truncate(descriptor, size)
