"""The calls of an OpenStack service: its reference and the routes, joined with api_notes.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.reference.calls import Call, read, served, written
from tests.reference.operations import DONE, Operation, operations
from tests.reference.rows import DIFFERS, NOT_THERE, OWN, THERE, NotesError, Row, fail


class Service:
    """The calls of one service with their rows: those of the notes, and generated ones for all other calls."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row] = []
        self.known: Mapping[Call, Operation] = {call_of(each).key: each for each in operations(name)}
        self.sections = list(dict.fromkeys(each.section for each in self.known.values()))

    def add(self, cells: list[str]) -> None:
        """Add a row of the notes, for some calls or for all calls of a section without another row."""
        row = Row(*cells)
        if row.cell.startswith("`"):
            row.calls = read(row.cell, self.name)
        elif row.cell not in self.sections:
            raise NotesError(f"{self.name}: {row.cell} is not a section of the reference")
        self.rows.append(row)

    def finish(self) -> None:
        """Set the calls and the state of each row, and add rows for all other calls; raises NotesError."""
        noted = [key for row in self.rows for key in {call.key for call in row.calls}]
        doubled = sorted({str(call) for call in noted if noted.count(call) > 1})
        fail(self.name, "in two rows", doubled)
        rest = [key for key in self.known if not any(_stands_for(call, key, self.known) for call in noted)]
        by_section = {row.cell for row in self.rows if not row.calls}
        blank = [Row(section) for section in self.sections if section not in by_section]
        self.rows = [
            made for row in (*self.rows, *blank) for made in ([row] if row.calls else self._of_section(row, rest))
        ]
        for row in self.rows:
            row.state = self._state(row)
        fail(self.name, "no reason why it is not supported", [
            row.cell for row in self.rows if row.state == NOT_THERE and not row.why
        ])  # fmt: skip
        fail(self.name, "in no row", [str(call) for call in self.without_row()])

    def without_row(self) -> list[Call]:
        """Return the calls of the routes without a row."""
        keys = [call.key for row in self.rows for call in row.calls]
        return [call for call in served(self.name) if not any(_matches(each, call.key) for each in keys)]

    def summary(self) -> str:
        """Return the sentence above the table."""
        count = dict.fromkeys((THERE, DIFFERS, NOT_THERE), 0)
        for key in self.known:
            states = (row.state for row in self.rows for call in row.calls if _stands_for(call.key, key, self.known))
            count[next(states)] += 1
        return (
            f"{len(self.known)} calls of the reference: {count[THERE]} are supported, {count[DIFFERS]} with a"
            f" difference, {count[NOT_THERE]} are not supported."
        )

    def _of_section(self, row: Row, rest: Iterable[Call]) -> Iterator[Row]:
        """Yield rows for the other calls of a section: one for supported calls, one for each reason of the others.

        The third cell of a row with an empty second one applies to unsupported calls only.
        """
        left = {key: self.known[key] for key in rest if self.known[key].section == row.cell}
        there = [call_of(each) for each in left.values() if each.outcome == DONE]
        if there:
            yield Row(written(there, self.name), row.how, row.why if row.how else "", there)
        missing: dict[str, list[Call]] = {}
        for each in left.values():
            if each.outcome != DONE:
                missing.setdefault(each.remark or ("" if there else row.why), []).append(call_of(each))
        for why, calls in missing.items():
            yield Row(written(calls, self.name), "" if there else row.how, why, calls)

    def _state(self, row: Row) -> str:
        """Return the common state of the calls of a row; raises NotesError if they differ."""
        there = {call: self._is_there(call) for call in row.calls}
        if not any(there.values()):
            return NOT_THERE
        fail(
            self.name,
            f"split the row {row.cell[:80]}: not supported",
            [str(call) for call, is_it in there.items() if not is_it],
        )
        if row.how.startswith(OWN):
            fail(self.name, "not Novella's own", [str(call) for call in row.calls if call.key in self.known])
            return OWN
        return DIFFERS if row.why else THERE

    def _is_there(self, call: Call) -> bool:
        outcomes = {each.outcome == DONE for key, each in self.known.items() if _stands_for(call.key, key, self.known)}
        if not outcomes:
            fail(self.name, "neither answered nor in the reference", [] if call.is_answered() else [str(call)])
        return all(outcomes)


def call_of(operation: Operation) -> Call:
    """Convert an operation of a reference to a call."""
    return Call(operation.method, operation.whole_path, operation.action)


def _stands_for(noted: Call, key: Call, known: Mapping[Call, Operation]) -> bool:
    """Return whether a call of a row is the call ``key`` of the reference, exactly or by pattern."""
    return noted == key or (noted not in known and _matches(noted, key))


def _matches(one: Call, other: Call) -> bool:
    """Return whether two calls match: a path parameter matches any part, no action matches every action."""
    if one.method != other.method or (one.action and other.action and one.action != other.action):
        return False
    parts = one.path.split("/"), other.path.split("/")
    return len(parts[0]) == len(parts[1]) and all(a == b or "{}" in {a, b} for a, b in zip(*parts, strict=True))
