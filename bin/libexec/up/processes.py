"""Descendants and command lines of processes, from /proc."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the children of a process; none when it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Return all processes below one, parents first."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def command_line(pid: int) -> str:
    """Return the program and its arguments, separated by spaces; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
