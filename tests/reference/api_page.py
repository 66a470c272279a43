"""Generates docs/api.md: joins the tables of api_notes.md with the calls of the references and the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.reference.calls import VERSIONS
from tests.reference.ec2_rows import Ec2
from tests.reference.service_rows import Service

NOTES = Path(__file__).parent / "api_notes.md"
HEAD = "| call | | use, difference, or why it is not supported |\n|---|---|---|"
MADE = (
    "<!-- Generated from tests/reference/api_notes.md, the lists of calls in its folder, and the routes. Edit a row"
    " there, and generate this page: WRITE_PAGES=1 pytest tests/reference -->"
)
HEADS = ("| call |", "| action |")
_HEADING = re.compile(r"## .*, `/(\w+)[^`]*`")


def page() -> str:
    """The page of the documentation."""
    notes = NOTES.read_text()
    lines = notes[notes.index("\n# ") + 1 :].splitlines()
    return "\n".join([lines[0], "", MADE, *_lines(lines[1:])]) + "\n"


def _lines(notes: Iterable[str]) -> Iterator[str]:
    """Yield the notes with the completed table of each service."""
    service: Service | Ec2 | None = None
    for line in notes:
        heading = _HEADING.match(line)
        if heading and heading[1] in {*VERSIONS, "ec2"}:
            service = Ec2() if heading[1] == "ec2" else Service(heading[1])
        if service is None or not (line.startswith("|") or service.rows):
            yield line
        elif line.startswith("| ") and not line.startswith(HEADS):
            service.add([cell.strip() for cell in line[1:-1].split("|")])
        elif not line.startswith("|"):
            service.finish()
            yield from (service.summary(), "", HEAD, *(row.line() for row in service.rows), line)
            service = None
