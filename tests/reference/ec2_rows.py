"""The actions of EC2: botocore's list and the registry, joined with api_notes.md."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from portal.api.ec2.actions.every import ACTIONS
from portal.api.ec2.frame import ALWAYS_TAKEN
from portal.api.ec2.protocol import model
from tests.reference.rows import DIFFERS, NOT_THERE, THERE, Row, fail


class Ec2:
    """All actions in rows: one for each supported action, the others grouped by the reason."""

    name = "ec2"

    def __init__(self) -> None:
        # In one order, whichever module was imported first.
        self.there = dict(sorted(ACTIONS.items(), key=lambda each: each[1].handler.__module__))
        self.known = sorted(model.names())
        self.rows: list[Row] = []

    def add(self, cells: list[str]) -> None:
        """Add a row of the notes, for supported actions or for patterns (``*``) of unsupported ones."""
        self.rows.append(Row(*cells))

    def finish(self) -> None:
        """Add a row for every action; raises NotesError."""
        notes = {word: row for row in self.rows for word in _names(row)}
        fail(self.name, "no action has this name", (
            word for word in notes if not any(fnmatchcase(name, word) for name in self.known)
        ))  # fmt: skip
        grouped: dict[str, list[str]] = {row.cell: [] for row in self.rows}
        for name in self.known:
            words = [word for word in notes if fnmatchcase(name, word)]
            if name in self.there:
                others = set(_names(notes[name])) - self.there.keys() if name in notes else set()
                fail(self.name, "supported, but in a row of unsupported actions", [name] if others else [])
            else:
                fail(self.name, "no reason why it is not supported", [] if words else [name])
                grouped[notes[words[0]].cell].append(name)
        rows = [self._there(name, notes.get(name)) for name in self.there]
        for row in self.rows:
            if grouped[row.cell]:
                fail(self.name, "no reason why it is not supported", [] if row.why else [row.cell])
                rows.append(self._missing(row, grouped[row.cell]))
        self.rows = rows

    def summary(self) -> str:
        """Return the sentence above the table."""
        there = sum(row.state == THERE for row in self.rows)
        differs = len(self.there) - there
        return (
            f"{len(self.known)} actions of EC2: {there} are supported, {differs} with a difference,"
            f" {len(self.known) - len(self.there)} are not supported."
        )

    def _there(self, name: str, note: Row | None) -> Row:
        """Return the row of a supported action, with its rejected and ignored arguments."""
        action = self.there[name]
        shape = model.operation(name).input_shape
        members = set(model.members_of(shape)) if shape is not None else set()
        refused = members - action.takes - action.ignored - ALWAYS_TAKEN
        differs = [note.why] if note and note.why else []
        differs += [
            f"{what}: {', '.join(f'`{each}`' for each in sorted(names))}"
            for what, names in (("rejected", refused), ("ignored", action.ignored))
            if names
        ]
        row = Row(f"`{name}`", note.how if note else "", "; ".join(differs))
        row.state = DIFFERS if differs else THERE
        return row

    def _missing(self, row: Row, names: list[str]) -> Row:
        """Return the row of the actions that are unsupported for one reason."""
        plain = ", ".join(f"`{name}`" for name in names)
        cell = plain if len(names) < 13 or "*" not in row.cell else f"{len(names)} actions: {row.cell}"
        return Row(cell, "", row.why, state=NOT_THERE)


def _names(row: Row) -> list[str]:
    """Return the names and patterns of actions in a row."""
    return re.findall(r"`([^`]+)`", row.cell)
