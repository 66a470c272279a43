"""The agent's own mount namespace, in which the agent covers single files of the machine with its own files."""

import ctypes
import errno
import grp
import os
import pwd
import re
import threading
from collections.abc import Callable, Container
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE, MS_SHARED = 0x1, 0x20, 0x1000, 0x4000, 0x80000, 0x100000

HIDDEN = (errno.ENOENT, errno.EINVAL)
"""Errors for a mount point that another mount covers."""
NETWORK_NAMESPACES = Path("/run/netns")
"""Directory of ``ip netns``, with a mount for each namespace."""

ACCOUNT = "libvirt-qemu"
GROUPS = (ACCOUNT, "kvm")
"""Names that libvirt looks up before it reads its settings, even if it does not use them."""
UNUSED_ID = 65533

_ESCAPE = re.compile(rb"\\([0-7]{3})")
_libc = ctypes.CDLL(None, use_errno=True)


def unshare() -> None:
    """Create a mount namespace for this process. Raises OSError, also if the process already has threads.

    Network namespaces are shared with the machine, because those that this process creates must exist after its end.
    """
    if threading.active_count() > 1:
        raise OSError("the process already has threads")
    _share(NETWORK_NAMESPACES)
    _check(_libc.unshare(CLONE_NEWNS))
    for place in _mounted():
        if not place.is_relative_to(NETWORK_NAMESPACES):
            # Slave instead of private: our copy of a mount must not keep it busy when it is unmounted outside.
            _check(_libc.mount(b"none", os.fsencode(place), None, MS_SLAVE, None), but=HIDDEN)


def cover(path: Path, content: bytes, copy: Path) -> None:
    """Cover ``path`` by a file with ``content``, stored in ``copy``. The file is read-only even for root. Requires
    ``unshare``.
    """
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy.write_bytes(content)
    copy.chmod(0o644)
    target = os.fsencode(path)
    _check(_libc.mount(os.fsencode(copy), target, None, MS_BIND, None))
    _check(_libc.mount(b"none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None))


def bind(folder: Path, place: Path) -> None:
    """Bind-mount ``folder`` at another path; requires ``unshare``. Raises OSError."""
    _check(_libc.mount(os.fsencode(folder), os.fsencode(place), None, MS_BIND, None))


def account_files() -> dict[Path, bytes]:
    """Return ``/etc/passwd`` and ``/etc/group`` with libvirt's account added, if the machine lacks it.

    The distribution's ``libvirt-daemon-system`` creates the account, but also installs a daemon that the embedded
    driver does not need. The embedded driver's QEMU uses another account, so libvirt's account owns no files.
    """
    files = {}
    if not _exists(pwd.getpwnam, ACCOUNT):
        line = f"{ACCOUNT}:x:{UNUSED_ID}:{UNUSED_ID}::/nonexistent:/usr/sbin/nologin\n"
        files[Path("/etc/passwd")] = _with(Path("/etc/passwd"), line)
    missing = [name for name in GROUPS if not _exists(grp.getgrnam, name)]
    if missing:
        lines = "".join(f"{name}:x:{UNUSED_ID}:\n" for name in missing)
        files[Path("/etc/group")] = _with(Path("/etc/group"), lines)
    return files


def _share(folder: Path) -> None:
    """Share mounts in the directory with all namespaces, as ``ip netns add`` does."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if folder not in _mounted():
        bind(folder, folder)
    _check(_libc.mount(b"none", os.fsencode(folder), None, MS_SHARED | MS_REC, None))


def _mounted() -> list[Path]:
    """List all visible mount points, a parent before those below it; see proc(5)."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return [Path(os.fsdecode(_ESCAPE.sub(lambda code: bytes([int(code[1], 8)]), line.split()[4]))) for line in lines]


def _with(path: Path, lines: str) -> bytes:
    content = path.read_text()
    return (content if content.endswith("\n") else content + "\n").encode() + lines.encode()


def _exists(lookup: Callable[[str], object], name: str) -> bool:
    try:
        lookup(name)
    except KeyError:
        return False
    return True


def _check(result: int, but: Container[int] = ()) -> None:
    code = ctypes.get_errno()
    if result != 0 and code not in but:
        raise OSError(code, os.strerror(code))
