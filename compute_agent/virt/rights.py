"""The rights of programs that read tenants' data: an error of theirs is not root on the host (see ``confine``)."""

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compute_agent.virt import confine
from compute_agent.virt.storage_account import StorageAccount

CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SETPCAP = 0, 1, 3, 5, 6, 7, 8
NET_BIND_SERVICE, NET_ADMIN, NET_RAW = 10, 12, 13
"""Numbers of capabilities(7)."""


@dataclass(frozen=True)
class Rights:
    """The rights of a program: those of its account, with its system calls filtered and no way to run another one."""

    account: StorageAccount | None = None
    """None: the agent's own."""
    places: Sequence[Path] = ()
    """The folders of pools, and single files, which the account can reach wherever they are."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits of resources (``AS``: bytes of memory, ``CPU``: seconds), as in setrlimit(2)."""
    allowed: Sequence[str] = ()
    """System calls that are not forbidden to it, beside those that nobody is."""
    capabilities: Sequence[int] = (DAC_OVERRIDE,)
    """Those that a program of root's has; one of another account has none."""

    @property
    def command(self) -> tuple[str, ...]:
        """Return the words before those of the program."""
        uid, gid = (self.account.uid, self.account.gid) if self.account is not None else (0, 0)
        given = {
            "uid": uid,
            "gid": gid,
            "places": [str(each) for each in self.places],
            "limits": dict(self.limits),
            "allowed": [*self.allowed],
            "capabilities": [*self.capabilities] if not uid else [],
        }
        return (sys.executable, "-I", "-S", confine.__file__, json.dumps(given))


OF_DNSMASQ = Rights(
    allowed=("execve", "setgid", "setgroups", "setuid"),
    capabilities=(CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_ADMIN, NET_RAW),
)
"""dnsmasq begins as root, becomes its account by itself, and runs a script for each lease."""


@contextlib.contextmanager
def lent(account: StorageAccount | None, *files: Path, read: Sequence[Path] = ()) -> Iterator[Rights]:
    """Give the rights of a program that reads and writes these files, and reads those of ``read``, for the time of the
    block.

    The files are the account's meanwhile, and those to ``read`` anybody's who gets into their folders.  Where root may
    not give files away (NFS), it is a program of root's.
    """
    if account is None:
        yield Rights()
        return
    given: list[Path] = []
    try:
        try:
            for path in read:
                path.chmod(0o444)
            for path in files:
                os.chown(path, account.uid, -1, follow_symlinks=False)
                given.append(path)
        except PermissionError:
            yield Rights()
        else:
            yield Rights(account, [*files, *read])
    finally:
        for path in given:
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISSOCK(path.lstat().st_mode):  # a socket may be lent to another program, too
                    os.chown(path, 0, -1, follow_symlinks=False)
