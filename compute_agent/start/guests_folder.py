"""The folder of guests belongs to one host.

Two hosts that have mounted one folder as their ``instances`` would copy disks onto themselves when a guest moves, and
each would remove the guests of the other as leftovers. Root disks that several hosts can access are in a pool
(``--root-disks``).
"""

import contextlib
import os
import uuid
from pathlib import Path

from compute_agent.link.errors import HostUnfitError
from compute_agent.virt.processes import durable

FOLDER, MARK, ID = "instances", ".host", "host-id"
"""The folder in the state; the mark in the folder; and the host's own copy of it, beside the folder."""


def claim(state_dir: Path) -> None:
    """Mark the folder of guests as this host's. Raises HostUnfitError if another host has marked it, OSError."""
    folder, own = state_dir / FOLDER, state_dir / ID
    if not own.exists():
        durable.replace(own, str(uuid.uuid4()).encode())
    folder.mkdir(mode=0o700, exist_ok=True)
    mark, text = folder / MARK, own.read_bytes()
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    if not mark.read_bytes():  # an agent was killed before it had written the mark
        durable.replace(mark, text)
    if mark.read_bytes() != text:
        raise HostUnfitError(
            f"The folder {folder} belongs to another host. Give each host its own folder, and store root disks that"
            f" several hosts can access in a pool (--root-disks). If no other host uses the folder, remove {mark}."
        )
