"""Processes below others, and how they were called, as /proc tells."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the processes that one has started; none when it is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Return all processes below one, parents first."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def command_line(pid: int) -> str:
    """Return program and arguments with spaces between them; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
