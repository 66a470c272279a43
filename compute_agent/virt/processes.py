"""Find and end the helper processes of this host: only those that are proved to be ours."""

from __future__ import annotations

import logging
import os
import select
import signal
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)

WAIT_SECONDS = 5.0


def is_ours(pid: int, marks: Iterable[Path]) -> bool:
    """Say whether the command line of ``pid`` names one of ``marks`` (a folder or a file under it)."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(os.fsencode(mark) + end in command for mark in marks for end in (b"/", b"\0"))


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """End a process and wait until it is gone; say whether it was there."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            log.warning("process %s does not end", pid)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def read_pid(path: Path) -> int | None:
    """Read a pid file; None when there is none or it holds no number."""
    try:
        return int(path.read_text().strip())
    except (OSError, ValueError):
        return None
