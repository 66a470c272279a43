"""Subjects of commits: ``area: Imperative sentence``."""

from __future__ import annotations

import re
import subprocess

LONGEST = 72
_SHAPE = re.compile(r"[a-z0-9_. /-]+: [A-Z]")


def faults(subject: str) -> list[str]:
    """Return what is wrong with a subject, apart from its words."""
    found = []
    if not _SHAPE.match(subject):
        found.append("write `area: Imperative sentence`")
    if len(subject) > LONGEST:
        found.append(f"{len(subject)} characters, at most {LONGEST}")
    if ";" in subject:
        found.append("one idea for each commit")
    if subject.endswith("."):
        found.append("no full stop at the end")
    return found


def since(base: str) -> list[str] | None:
    """Return the subjects of the commits after ``base``, or None where the repository does not have it."""
    command = ["git", "log", "--no-merges", "--format=%s", f"{base}..HEAD"]
    log = subprocess.run(command, capture_output=True, text=True, check=False)
    return log.stdout.splitlines() if log.returncode == 0 else None
