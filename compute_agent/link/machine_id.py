"""Identification of this machine: a host's credential is valid on one machine only."""

import hashlib
import os
import uuid
from pathlib import Path

from compute_agent.link.errors import StartError

SYSTEM = Path("/etc/machine-id")
"""machine-id(5): generated when the system was installed."""
FIRMWARE = Path("/sys/class/dmi/id/product_uuid")
"""Differs between a virtual machine and its clone; readable by root only."""
MADE = Path("/var/lib/misc/novella-machine-id")
MADE_BY_USERS = Path(".local/state/novella/machine-id")
"""The path of a generated id for an agent that does not run as root, relative to the home directory of its user."""


def machine_id() -> str:
    """Return 64 hexadecimal digits that are the same at every start on this machine, and different on other machines.

    machine-id(5) asks not to expose the system's id, so only a hash of it leaves the machine. If the system has no id,
    one is generated and stored outside the agent's state folder, which may be copied to another machine. Raises
    StartError.
    """
    number = _read(SYSTEM) or _made()
    return hashlib.sha256(f"novella-agent {number} {_read(FIRMWARE)}".encode()).hexdigest()


def _read(path: Path) -> str:
    """Return a file's first word; empty if there is none or the file cannot be read."""
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
            " set a unique id with --machine-id."
        ) from error
    return _read(path)
