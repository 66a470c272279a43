"""A mount namespace of the agent's own, in which single files of the machine are covered by others."""

import ctypes
import grp
import os
import pwd
import threading
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000

ACCOUNT = "libvirt-qemu"
GROUPS = (ACCOUNT, "kvm")
"""libvirt looks these names up before it reads its settings, also when it will never use them."""
UNUSED_ID = 65533

_libc = ctypes.CDLL(None, use_errno=True)


def unshare() -> None:
    """Give this process its own view of the mounts; raises OSError, also when the process has threads already."""
    if threading.active_count() > 1:
        raise OSError("the process already has threads")
    _check(_libc.unshare(CLONE_NEWNS))
    # Slave, not private: what is unmounted outside must not be held by our copy of its mount.
    _check(_libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None))


def cover(path: Path, content: bytes, copy: Path) -> None:
    """Show ``content`` (kept in the file ``copy``) at ``path``, read-only even for root; call ``unshare`` before."""
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy.write_bytes(content)
    copy.chmod(0o644)
    target = os.fsencode(path)
    _check(_libc.mount(os.fsencode(copy), target, None, MS_BIND, None))
    _check(_libc.mount(b"none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None))


def bind(folder: Path, place: Path) -> None:
    """Show ``folder`` under another name, too; call ``unshare`` before.  Raises OSError."""
    _check(_libc.mount(os.fsencode(folder), os.fsencode(place), None, MS_BIND, None))


def account_files() -> dict[Path, bytes]:
    """Return ``/etc/passwd`` and ``/etc/group`` with libvirt's account added, as far as the machine lacks it.

    The distribution's ``libvirt-daemon-system`` makes the account, together with a daemon that the embedded driver does
    without; QEMU has another account there, so this one owns nothing.
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


def _with(path: Path, lines: str) -> bytes:
    content = path.read_text()
    return (content if content.endswith("\n") else content + "\n").encode() + lines.encode()


def _exists(lookup: Callable[[str], object], name: str) -> bool:
    try:
        lookup(name)
    except KeyError:
        return False
    return True


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
