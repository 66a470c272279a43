"""Messages of commits: ``area: Imperative sentence``, and after a blank line the reason."""

from __future__ import annotations

import re
import subprocess

BASE = "ab999858e777ac4eae9e2ce4fe990bef933fb6c2"
"""The commit after which subjects are checked."""
LONGEST = 72
_SHAPE = re.compile(r"[a-z0-9_. /-]+: [A-Z]")
_SENTENCE = re.compile(r"[^:]*: ([\w'-]+)")
_OTHER_FORM = re.compile(r"(?:a|an|the|this|\w*[^e]ed|\w+ing|\w+[^su]s)", re.IGNORECASE)
_IMPERATIVES = frozenset({"alias", "bias", "bring", "embed", "ping", "ring", "shed", "string"})
"""Imperatives that have the ending of another form of a verb."""
_SCISSORS = "# ------------------------ >8 ------------------------"
"""The line that Git writes before the diff in ``git commit --verbose``."""
WRITTEN_BY_GIT = re.compile(r'Merge |Revert "|(?:fixup|squash|amend)! ')


def read(message: str) -> tuple[str, bool]:
    """Read a message as git passes it to a hook. Returns its subject, and whether its second line is blank."""
    text = message.partition(_SCISSORS)[0]
    subject, *rest = [line.rstrip() for line in text.strip().splitlines() if not line.startswith("#")] or [""]
    return subject, not (rest and rest[0])


def faults(subject: str) -> list[str]:
    """Return the faults of a subject's form, not of its words; no faults for a subject that git has written."""
    if WRITTEN_BY_GIT.match(subject):
        return []
    found = []
    if not _SHAPE.match(subject):
        found.append("write `area: Imperative sentence`")
    if len(subject) > LONGEST:
        found.append(f"{len(subject)} characters, at most {LONGEST}")
    if ";" in subject:
        found.append("one idea for each commit")
    if subject.endswith("."):
        found.append("no full stop at the end")
    first = _SENTENCE.match(subject)
    if first and first[1].lower() not in _IMPERATIVES and _OTHER_FORM.fullmatch(first[1]):
        found.append("begin with an imperative: Add, not Added, Adds or Adding")
    return found


def landed() -> list[str] | None:
    """Return the subjects of the commits after ``BASE``, or None if the repository does not contain it."""
    command = ["git", "log", "--no-merges", "--format=%s", f"{BASE}..HEAD"]
    log = subprocess.run(command, capture_output=True, text=True, check=False)
    return log.stdout.splitlines() if log.returncode == 0 else None
