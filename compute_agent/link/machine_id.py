"""What tells this machine from others: a host's credential holds for one machine only."""

import hashlib
import os
import uuid
from pathlib import Path

from compute_agent.link.errors import StartError

SYSTEM = Path("/etc/machine-id")
"""machine-id(5): made when the system was installed."""
FIRMWARE = Path("/sys/class/dmi/id/product_uuid")
"""Differs between a virtual machine and its clone; readable by root only."""
MADE = Path("/var/lib/misc/novella-machine-id")
MADE_BY_USERS = Path(".local/state/novella/machine-id")
"""Below the home of who is not root."""


def machine_id() -> str:
    """Return 64 hexadecimal digits that are the same at every start on this machine, and on no other.

    machine-id(5) asks not to show the system's own number to others, so a hash of it is what leaves the machine.  Where
    there is none, one is made outside of the agent's state folder, which may be copied.  Raises StartError.
    """
    number = _read(SYSTEM) or _made()
    return hashlib.sha256(f"novella-agent {number} {_read(FIRMWARE)}".encode()).hexdigest()


def _read(path: Path) -> str:
    """Return a file's first word; nothing when there is none or it cannot be read."""
    try:
        words = path.read_text().split()
    except (OSError, UnicodeDecodeError):
        return ""
    return words[0] if words and words[0] != "uninitialized" else ""


def _made() -> str:
    path = MADE if os.geteuid() == 0 else Path.home() / MADE_BY_USERS
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _read(path):
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fresh.write_text(f"{uuid.uuid4().hex}\n")
            fresh.replace(path)
    except OSError as error:
        raise StartError(
            f"This machine has no {SYSTEM}, and {path} cannot be written ({error.strerror}):"
            " give it a number of its own with --machine-id."
        ) from error
    return _read(path)
