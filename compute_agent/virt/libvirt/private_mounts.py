"""A mount namespace of the agent's own, in which single files of the machine are covered by others."""

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
"""Errors about a mount that another one lies over."""
NETWORK_NAMESPACES = Path("/run/netns")
"""Where ``ip netns`` keeps them, each as a mount."""

ACCOUNT = "libvirt-qemu"
GROUPS = (ACCOUNT, "kvm")
"""libvirt looks these names up before it reads its settings, also when it will never use them."""
UNUSED_ID = 65533

_ESCAPE = re.compile(rb"\\([0-7]{3})")
_libc = ctypes.CDLL(None, use_errno=True)


def unshare() -> None:
    """Give this process its own view of the mounts; raises OSError, also when the process has threads already.

    Network namespaces stay in common with the machine: those that this process makes must outlive it.
    """
    if threading.active_count() > 1:
        raise OSError("the process already has threads")
    _share(NETWORK_NAMESPACES)
    _check(_libc.unshare(CLONE_NEWNS))
    for place in _mounted():
        if not place.is_relative_to(NETWORK_NAMESPACES):
            # Slave, not private: what is unmounted outside must not be held by our copy of its mount.
            _check(_libc.mount(b"none", os.fsencode(place), None, MS_SLAVE, None), but=HIDDEN)


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


def _share(folder: Path) -> None:
    """Let mounts in the folder be seen in all views of it, as ``ip netns add`` does."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if folder not in _mounted():
        bind(folder, folder)
    _check(_libc.mount(b"none", os.fsencode(folder), None, MS_SHARED | MS_REC, None))


def _mounted() -> list[Path]:
    """List the places of all mounts that can be seen, the outer before the inner; see proc(5)."""
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
