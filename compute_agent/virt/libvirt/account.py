"""The account of guests' QEMU processes. Code that escapes from a guest does not become root on the host."""

import grp
import logging
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from compute_agent.settings import AgentSettings

log = logging.getLogger(__name__)

AUTO = "auto"
KNOWN = ("novella-guests", "libvirt-qemu")
"""Accounts for ``auto``: the account of bin/up, and the account of distributions' libvirt packages."""
DEVICE = Path("/dev/kvm")


@dataclass(frozen=True)
class Account:
    """A user and its primary group."""

    name: str
    uid: int
    gid: int

    @property
    def is_root(self) -> bool:
        return self.uid == 0

    def may_use(self, device: Path) -> bool:
        """Return whether the account may read and write the device, as its owner or through a group."""
        about = device.stat()
        if about.st_uid == self.uid:
            return about.st_mode & 0o600 == 0o600
        groups = {self.gid, *(group.gr_gid for group in grp.getgrall() if self.name in group.gr_mem)}
        if about.st_gid in groups:
            return about.st_mode & 0o060 == 0o060
        return about.st_mode & 0o006 == 0o006

    def change_owner(self, path: Path, mode: int) -> None:
        """Change the owner of a file or directory to the account. Only root may be able to write to the parent
        directory.
        """
        self._change(path, self.uid, mode)

    def show(self, path: Path, mode: int) -> None:
        """Give the account access to a file or directory that root owns, through the account's group."""
        self._change(path, ROOT.uid, mode)

    def _change(self, path: Path, owner: int, mode: int) -> None:
        if os.geteuid() == ROOT.uid:
            os.chown(path, owner, self.gid, follow_symlinks=False)
        path.chmod(mode)


ROOT = Account("root", 0, 0)


def choose(settings: AgentSettings, virt_type: str) -> Account:
    """Return the account for guests of the embedded driver. Raises ValueError for an unknown user.

    It is root only if root is configured, if there is no other account, or if the account may not use a working KVM;
    the last two cases log a warning. For a libvirt that is not embedded, root is returned: its guests use the account
    in libvirt's settings.
    """
    if not settings.own_libvirt or os.geteuid() != 0 or settings.guest_user == ROOT.name:
        return ROOT
    names = KNOWN if settings.guest_user == AUTO else (settings.guest_user,)
    chosen = next((account for name in names if (account := _lookup(name)) is not None), None)
    if chosen is None and settings.guest_user != AUTO:
        raise ValueError(f"there is no user {settings.guest_user!r} for guests")
    if chosen is None:
        log.warning("Guests run as root: create a user for them (useradd --system %s).", KNOWN[0])
        return ROOT
    if virt_type == "kvm" and not chosen.may_use(DEVICE):
        log.warning("Guests run as root: user %s may not use %s; add it to the group that may.", chosen.name, DEVICE)
        return ROOT
    return chosen


def _lookup(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid)
