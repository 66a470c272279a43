"""Rows of docs/api.md, and the four states of a call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.reference.calls import Call

THERE, DIFFERS, NOT_THERE, OWN = "supported", "supported, with a difference", "not supported", "Novella's own"


class NotesError(Exception):
    """An error in api_notes.md."""


@dataclass
class Row:
    """One row of the page; ``why`` is its difference from the reference, or why it is not supported."""

    cell: str
    how: str = ""
    why: str = ""
    calls: list[Call] = field(default_factory=list)
    state: str = ""

    def line(self) -> str:
        """Return the row in Markdown."""
        parts = [part.rstrip(".") for part in (self.how, self.why) if part]
        if self.state == DIFFERS:
            parts[-1] = f"**Differs:** {parts[-1]}"
        return f"| {self.cell} | {self.state} | {('; ' if self.state == NOT_THERE else '. ').join(parts)} |"


def fail(service: str, what: str, whose: Iterable[str]) -> None:
    """Raise NotesError with the items in ``whose``, if there are any."""
    result = list(whose)
    if result:
        raise NotesError(f"{service}: {what}: {', '.join(result)}")
