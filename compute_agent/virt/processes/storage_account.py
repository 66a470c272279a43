"""The account of storage daemons. A vulnerability of their NBD server does not give root on the storage host."""

import logging
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

AUTO, ROOT = "auto", "root"
KNOWN = "novella-storage"
"""The account that ``auto`` looks for: bin/up creates it."""


@dataclass(frozen=True)
class StorageAccount:
    """A user and its primary group."""

    name: str
    uid: int
    gid: int

    def change_owner(self, path: Path, mode: int) -> None:
        """Change the owner of a file to the account, which writes the file."""
        self._change(path, self.uid, mode)

    def show(self, path: Path, mode: int) -> None:
        """Give the account's group access to a file or folder that root owns."""
        self._change(path, 0, mode)

    def may_read(self, path: Path) -> bool:
        """Return whether the account can read a file, according to the modes of the file and its parent folders."""
        try:
            return self._has(path.stat(), 4) and all(self._has(folder.stat(), 1) for folder in path.resolve().parents)
        except OSError:
            return False

    def _has(self, about: os.stat_result, bit: int) -> bool:
        shift = 6 if about.st_uid == self.uid else 3 if about.st_gid == self.gid else 0
        return bool(about.st_mode >> shift & bit)

    def _change(self, path: Path, owner: int, mode: int) -> None:
        about = path.lstat()
        if (about.st_uid, about.st_gid) != (owner, self.gid):
            os.chown(path, owner, self.gid, follow_symlinks=False)
        if stat.S_IMODE(about.st_mode) != mode:
            path.chmod(mode)


def choose(configured: str) -> StorageAccount | None:
    """Return the configured account; None to run storage daemons under the agent's account.

    Raises ValueError for an unknown user.
    """
    if os.geteuid() != 0 or configured == ROOT:
        return None
    name = KNOWN if configured == AUTO else configured
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        if configured != AUTO:
            raise ValueError(f"there is no user {configured!r} for storage daemons") from error
        log.warning("Storage daemons run as root: create a user for them (useradd --system %s).", KNOWN)
        return None
    return StorageAccount(name, entry.pw_uid, entry.pw_gid)
