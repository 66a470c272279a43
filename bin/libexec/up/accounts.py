"""The accounts that this machine's services run under when bin/up is root: made once, for all data folders."""

from __future__ import annotations

import grp
import pwd
import shutil
import subprocess
import time
from pathlib import Path

GUESTS = "novella-guests"
"""Guests' QEMU processes; the agent takes it by itself."""
DHCP = "novella-dhcp"
"""dnsmasq; the agent takes it by itself, too."""
STORAGE = "novella-storage"
"""Storage daemons of volumes; the agent takes it by itself, too."""
KVM = Path("/dev/kvm")
TRIES = 20
PAUSE = 0.25
"""Seconds until the next try: another program may be changing the machine's users."""


class AccountError(Exception):
    """An account cannot be created; the text is a clause for the terminal."""


def ensure(name: str) -> pwd.struct_passwd:
    """Return the system user ``name``, with a group of its own; created when it is missing. Raises AccountError."""
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    for _ in range(TRIES):
        if (found := _lookup(name)) is not None:
            return found
        said = _run("useradd", *options, "--shell", "/usr/sbin/nologin", name)
        if not said:
            continue
        time.sleep(PAUSE)
    message = f"there is no user {name}, and it cannot be created: {said}"
    raise AccountError(message)


def ensure_agents(device: Path = KVM) -> None:
    """Create the accounts for the agent's programs; guests are in the group that may use KVM if it exists.

    Raises AccountError.
    """
    ensure(DHCP)
    ensure(GUESTS)
    ensure(STORAGE)
    if not device.exists() or device.stat().st_gid == 0 or device.stat().st_mode & 0o060 != 0o060:
        return
    group = grp.getgrgid(device.stat().st_gid)
    if GUESTS not in group.gr_mem and (said := _run("usermod", "--append", "--groups", group.gr_name, GUESTS)):
        message = f"user {GUESTS} cannot be put into group {group.gr_name}: {said}"
        raise AccountError(message)


def _lookup(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _run(program: str, *arguments: str) -> str:
    """Run a program that changes the machine's users; return what it complains of."""
    if shutil.which(program) is None:
        return f"{program} is not installed"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
