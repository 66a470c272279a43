"""``bin/check words``: finds words that docs/glossary.md replaces, and faults of commit subjects."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.words import subjects
from tools.words.passages import Passage, passages
from tools.words.patterns import PATTERNS

LEFT_OUT = ("tests/", "docs/glossary.md", "tools/words/", "node_modules/")
"""Files that are not checked: fixtures quote what users type, and the glossary and the patterns quote
replaced words.
"""
FOLLOWING = 40
"""Characters shown around a match."""


@dataclass(frozen=True)
class Match:
    """A place where a pattern matches, with its suggestion."""

    place: str
    found: str
    write: str

    def __str__(self) -> str:
        return f"{self.place}: …{self.found}… → {self.write}"


def in_passage(passage: Passage) -> list[Match]:
    """Return the matches of all patterns in one text."""
    found = []
    for pattern in PATTERNS:
        if pattern.only_docstrings and not passage.is_docstring:
            continue
        for match in pattern.expression.finditer(passage.text):
            excerpt = passage.text[max(match.start() - FOLLOWING, 0) : match.end() + FOLLOWING]
            found.append(Match(f"{passage.path}:{passage.line}", excerpt, pattern.write))
    return found


def in_files() -> list[Match]:
    listing = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    found = []
    for path in listing.stdout.splitlines():
        if path.startswith(LEFT_OUT) or "/migrations/" in path or not Path(path).is_file():
            continue
        if path.endswith((".py", ".md")) or path.startswith("templates/"):
            for passage in passages(path, Path(path).read_text()):
                found += in_passage(passage)
    return found


def in_subject(subject: str) -> list[Match]:
    found = in_passage(Passage("commit", 1, subject))
    return found + [Match("commit:1", subject, fault) for fault in subjects.faults(subject)]


def in_message(message: str) -> list[Match]:
    """Return the matches in a complete message, as git passes it to a hook."""
    subject, blank = subjects.read(message)
    found = [] if subjects.WRITTEN_BY_GIT.match(subject) else in_subject(subject)
    return found if blank else [*found, Match("commit:1", subject, "leave the second line blank")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/check words", description=__doc__)
    parser.add_argument(
        "--subject", metavar="FILE", type=Path, help="check only the commit message in FILE, as a hook does"
    )
    options = parser.parse_args()
    if options.subject is not None:
        matches = in_message(options.subject.read_text())
    else:
        matches = in_files()
        landed = subjects.landed()
        if landed is None:
            print(f"Commit subjects are not checked: this clone does not have the commit {subjects.BASE}.")
        for subject in landed or []:
            matches += in_subject(subject)
    print(*matches, sep="\n", end="\n" if matches else "")
    return 1 if matches else 0


if __name__ == "__main__":
    sys.exit(main())
