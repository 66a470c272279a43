"""The accounts that this machine's services run under when bin/up is root. They are created once, for all
data folders.
"""

from __future__ import annotations

import grp
import pwd
import shutil
import subprocess
import time
from pathlib import Path

GUESTS = "novella-guests"
"""The account of guests' QEMU processes; the agent looks it up by its name."""
DHCP = "novella-dhcp"
"""The account of dnsmasq; the agent looks it up by its name."""
STORAGE = "novella-storage"
"""The account of volumes' storage daemons; the agent looks it up by its name."""
KVM = Path("/dev/kvm")
TRIES = 20
PAUSE = 0.25
"""Seconds until the next try: another program may be changing the machine's users."""


class AccountError(Exception):
    """An account cannot be created. The message is printed within a sentence, so it starts in lower case and has no
    full stop.
    """


def ensure(name: str) -> pwd.struct_passwd:
    """Return the system user ``name``, which has its own group; create the user if it does not exist. Raises
    AccountError.
    """
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    for _ in range(TRIES):
        if (found := _lookup(name)) is not None:
            return found
        result = _run("useradd", *options, "--shell", "/usr/sbin/nologin", name)
        if not result:
            continue
        time.sleep(PAUSE)
    message = f"there is no user {name}, and it cannot be created: {result}"
    raise AccountError(message)


def ensure_agents(device: Path = KVM) -> None:
    """Create the accounts for the agent's programs. The guests' account is added to the group of ``device``, if a group
    has access to KVM.

    Raises AccountError.
    """
    ensure(DHCP)
    ensure(GUESTS)
    ensure(STORAGE)
    if not device.exists() or device.stat().st_gid == 0 or device.stat().st_mode & 0o060 != 0o060:
        return
    group = grp.getgrgid(device.stat().st_gid)
    if GUESTS not in group.gr_mem and (result := _run("usermod", "--append", "--groups", group.gr_name, GUESTS)):
        message = f"user {GUESTS} cannot be added to group {group.gr_name}: {result}"
        raise AccountError(message)


def _lookup(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _run(program: str, *arguments: str) -> str:
    """Run a program that changes the machine's users. Returns its error message, empty if it has succeeded."""
    if shutil.which(program) is None:
        return f"{program} is not installed"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
