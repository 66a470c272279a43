"""``bin/check words``: compares the number of matches in each package with the allowed number.

A package may have fewer matches than ``allowed.json`` says, never more; ``--update`` lowers the numbers to those found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.words import subjects
from tools.words.passages import passages
from tools.words.patterns import PATTERNS

ALLOWED = Path(__file__).with_name("allowed.json")
SUBJECTS = "commit subjects"
LEFT_OUT = ("tests/", "docs/glossary.md", "tools/words/", "node_modules/")
"""Files that are not checked: fixtures quote what users type, and the glossary and the patterns quote
replaced words.
"""
FOLLOWING = 40
"""Characters shown around a match."""


@dataclass(frozen=True)
class Match:
    """A place where a pattern matches, with its suggestion."""

    group: str
    place: str
    found: str
    write: str

    def __str__(self) -> str:
        return f"{self.place}: …{self.found}… → {self.write}"


def in_text(group: str, place: str, text: str) -> list[Match]:
    """Return the matches of all patterns in one text."""
    found = []
    for pattern in PATTERNS:
        for match in pattern.expression.finditer(text):
            excerpt = text[max(match.start() - FOLLOWING, 0) : match.end() + FOLLOWING]
            found.append(Match(group, place, excerpt, pattern.write))
    return found


def in_files() -> list[Match]:
    listing = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    found = []
    for path in listing.stdout.splitlines():
        if path.startswith(LEFT_OUT) or "/migrations/" in path or not Path(path).is_file():
            continue
        if path.endswith((".py", ".md")) or path.startswith("templates/"):
            for passage in passages(path, Path(path).read_text()):
                found += in_text(passage.group, f"{passage.path}:{passage.line}", passage.text)
    return found


def in_subject(subject: str) -> list[Match]:
    found = in_text(SUBJECTS, SUBJECTS, subject)
    return found + [Match(SUBJECTS, SUBJECTS, subject, fault) for fault in subjects.faults(subject)]


def in_message(message: str) -> list[Match]:
    """Return the matches in a complete message, as git passes it to a hook."""
    subject, blank = subjects.read(message)
    found = [] if subjects.WRITTEN_BY_GIT.match(subject) else in_subject(subject)
    return found if blank else [*found, Match(SUBJECTS, SUBJECTS, subject, "leave the second line blank")]


def judge(matches: list[Match], allowed: dict[str, int]) -> tuple[list[str], list[str]]:
    """Compare the matches with the allowed numbers. Returns lines about packages with more matches, and about those
    with fewer.
    """
    counts = Counter(match.group for match in matches)
    places = defaultdict(list)
    for match in matches:
        places[match.group].append(f"  {match}")
    more, fewer = [], []
    for group in sorted(counts.keys() | allowed.keys()):
        limit = allowed.get(group, 0)
        if counts[group] > limit:
            more += [f"{group}: {counts[group]} matches, {limit} allowed", *places[group]]
        elif counts[group] < limit:
            fewer.append(f"{group}: {counts[group]} matches, {limit} allowed")
    return more, fewer


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/check words", description=__doc__)
    parser.add_argument("--update", action="store_true", help="lower the allowed numbers to those found")
    parser.add_argument(
        "--subject", metavar="FILE", type=Path, help="check only the commit message in FILE, as a hook does"
    )
    parser.add_argument("--list", metavar="GROUP", help="show the matches of the packages whose name begins so")
    options = parser.parse_args()
    kept: dict[str, Any] = json.loads(ALLOWED.read_text())
    if options.subject is not None:
        found = in_message(options.subject.read_text())
        print(*found, sep="\n", end="\n" if found else "")
        return 1 if found else 0
    matches = in_files()
    landed = subjects.since(kept["base"])
    if landed is None:
        print(f"Commit subjects are not checked: this clone does not have the commit {kept['base']}.")
    for subject in landed or []:
        matches += in_subject(subject)
    if options.list is not None:
        print(*(match for match in matches if match.group.startswith(options.list)), sep="\n")
        return 0
    more, fewer = judge(matches, kept["allowed"])
    print(*more, sep="\n", end="\n" if more else "")
    if options.update and not more:
        counts = Counter(match.group for match in matches)
        kept["allowed"] = dict(sorted(counts.items()))
        ALLOWED.write_text(json.dumps(kept, indent=4) + "\n")
    elif fewer:
        print(*fewer, "Fewer than allowed: run bin/check words --update and commit the file.", sep="\n")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
