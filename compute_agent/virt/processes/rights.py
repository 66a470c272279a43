"""The rights of programs that read tenants' data. A vulnerability of such a program does not give root on the host (see
``confine``).
"""

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compute_agent.virt.processes import confine
from compute_agent.virt.processes.storage_account import StorageAccount

CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SETPCAP = 0, 1, 3, 5, 6, 7, 8
NET_BIND_SERVICE, NET_ADMIN, NET_RAW = 10, 12, 13
"""Numbers of capabilities(7)."""


@dataclass(frozen=True)
class Rights:
    """The rights of a program: its account, a system call filter, and no execution of other programs."""

    account: StorageAccount | None = None
    """None: the agent's own account."""
    places: Sequence[Path] = ()
    """Directories of pools and single files that the account can reach, wherever they are."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits of resources (``AS``: bytes of memory, ``CPU``: seconds), as in setrlimit(2)."""
    allowed: Sequence[str] = ()
    """System calls that are allowed in addition to the default ones."""
    capabilities: Sequence[int] = (DAC_OVERRIDE,)
    """Capabilities of a program of root; other accounts have none."""

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command line that precedes the program's own (``confine``)."""
        uid, gid = (self.account.uid, self.account.gid) if self.account is not None else (0, 0)
        rights = {
            "uid": uid,
            "gid": gid,
            "places": [str(each) for each in self.places],
            "limits": dict(self.limits),
            "allowed": [*self.allowed],
            "capabilities": [*self.capabilities] if not uid else [],
        }
        return (sys.executable, "-I", "-S", confine.__file__, json.dumps(rights))


OF_DNSMASQ = Rights(
    allowed=("execve", "setgid", "setgroups", "setuid"),
    capabilities=(CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_ADMIN, NET_RAW),
)
"""dnsmasq starts as root, changes to its own account, and runs a script for each lease."""


@contextlib.contextmanager
def lent(account: StorageAccount | None, *files: Path, read: Sequence[Path] = ()) -> Iterator[Rights]:
    """Yield the rights of a program to read and write ``files``, and to read the files ``read``, while the block runs.

    During the block, the account owns ``files``, and the files ``read`` are world-readable. If root cannot change
    owners (NFS), the program runs as root.
    """
    if account is None:
        yield Rights()
        return
    granted: list[Path] = []
    try:
        try:
            for path in read:
                path.chmod(0o444)
            for path in files:
                os.chown(path, account.uid, -1, follow_symlinks=False)
                granted.append(path)
        except PermissionError:
            yield Rights()
        else:
            yield Rights(account, [*files, *read])
    finally:
        for path in granted:
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISSOCK(path.lstat().st_mode):  # a socket may also be lent to another program
                    os.chown(path, 0, -1, follow_symlinks=False)
