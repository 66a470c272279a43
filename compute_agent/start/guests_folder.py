"""The folder of guests belongs to one host.

Two hosts that have mounted one folder as their ``instances`` would copy disks onto themselves when a guest moves, and
each would remove the guests of the other as leftovers. Root disks that several hosts can access are in a pool
(``--root-disks``).
"""

import contextlib
import errno
import logging
import os
import uuid
from pathlib import Path

from compute_agent.link.errors import HostUnfitError
from compute_agent.virt.processes import durable

log = logging.getLogger(__name__)

FOLDER, MARK, ID = "instances", ".host", "host-id"
"""The folder in the state; the mark in the folder; and the host's own copy of it, beside the folder."""
FULL = {errno.ENOSPC, errno.EDQUOT}


def claim(state_dir: Path) -> None:
    """Mark the folder of guests as this host's. If the file system is full, a later start marks it.

    Raises HostUnfitError if another host has marked it, OSError.
    """
    try:
        _mark(state_dir)
    except OSError as error:
        if error.errno not in FULL:
            raise
        log.warning("The folder %s cannot be marked as this host's now: %s.", state_dir / FOLDER, error.strerror)
    check(state_dir)


def check(state_dir: Path) -> None:
    """Raise HostUnfitError if another host has marked the folder of guests."""
    mark, own = state_dir / FOLDER / MARK, state_dir / ID
    marked = _content(mark)
    if marked and marked != _content(own):
        raise HostUnfitError(
            f"The folder {mark.parent} belongs to another host. Give each host its own folder, and store root disks"
            f" that several hosts can access in a pool (--root-disks). If no other host uses the folder, remove {mark}."
        )


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _mark(state_dir: Path) -> None:
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
    if not mark.read_bytes():  # an agent was killed, or the file system was full, before the mark was written
        durable.replace(mark, text)
