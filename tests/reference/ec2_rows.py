"""The actions of EC2: botocore's list of them and our registry, joined with what the notes say."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from portal.api.ec2 import registry
from portal.api.ec2.protocol import model
from tests.reference.rows import DIFFERS, NOT_THERE, THERE, Row, fail


class Ec2:
    """All actions, in rows: each one that is there has its own, others are grouped by why they are not."""

    name = "ec2"

    def __init__(self) -> None:
        registry.load()
        # In one order, whichever module was imported first.
        self.there = dict(sorted(registry.actions.items(), key=lambda each: each[1].handler.__module__))
        self.known = sorted(model.names())
        self.rows: list[Row] = []

    def add(self, cells: list[str]) -> None:
        """Take a row of the notes: of actions that are there, or of names, with ``*``, and why they are not."""
        self.rows.append(Row(*cells))

    def finish(self) -> None:
        """Give every action a row; NotesError."""
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
        """The sentence above the table."""
        there = sum(row.state == THERE for row in self.rows)
        differs = len(self.there) - there
        return (
            f"{len(self.known)} actions of EC2: {there} are supported, {differs} with a difference,"
            f" {len(self.known) - len(self.there)} are not supported."
        )

    def _there(self, name: str, note: Row | None) -> Row:
        """Return the row of an action, with the arguments that it does not take, or does not heed."""
        action = self.there[name]
        shape = model.operation(name).input_shape
        members = set(model.members_of(shape)) if shape is not None else set()
        refused = members - action.takes - action.passes_over - registry.ALWAYS_TAKEN
        differs = [note.why] if note and note.why else []
        differs += [
            f"{what}: {', '.join(f'`{each}`' for each in sorted(names))}"
            for what, names in (("rejected", refused), ("ignored", action.passes_over))
            if names
        ]
        row = Row(f"`{name}`", note.how if note else "", "; ".join(differs))
        row.state = DIFFERS if differs else THERE
        return row

    def _missing(self, row: Row, names: list[str]) -> Row:
        """Return the row of actions that are not there for one reason."""
        plain = ", ".join(f"`{name}`" for name in names)
        cell = plain if len(names) < 13 or "*" not in row.cell else f"{len(names)} actions: {row.cell}"
        return Row(cell, "", row.why, state=NOT_THERE)


def _names(row: Row) -> list[str]:
    """Return the actions that a row of the notes names, with ``*`` as there."""
    return re.findall(r"`([^`]+)`", row.cell)
