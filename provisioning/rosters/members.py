"""Users who are added to one project from a list: which lines are new, exist or are wrong, and their creation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from provisioning.identity.models import Project, Role
from provisioning.rosters.file import Problems, read
from provisioning.rosters.plan import NewUser, Plan

COLUMNS = ("user", "email")
MOST_LINES = 500
MOST_BYTES = 65_536
NEW, JOINS, MEMBER, EXISTS, WRONG = "new", "joins", "member", "exists", "wrong"
"""States of a line: its user is created; exists and gets the role; exists and has it; exists, while other lines are
wrong; the line is wrong.
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the list."""

    number: int
    user: str
    email: str
    state: str
    reasons: tuple[str, ...] = ()
    """Why the line is wrong."""


class MemberList:
    """A list of users for a project: CSV with the columns ``COLUMNS``, with or without a first line that names them.

    Each user gets the role on the project. Users are looked up in the project's domain, and created there.
    """

    def __init__(self, text: str, project: Project, role: Role) -> None:
        """Read the list and the records, and change nothing."""
        self.problems = Problems()
        data = text.encode()
        if len(data) > MOST_BYTES:
            self.problems.add(1, f"The list has more than {MOST_BYTES:,} bytes.")
        if not text.strip("\ufeff \t\r\n"):
            self.problems.add(1, "The list is empty.")
        rows = read(data, self.problems, only=COLUMNS) if not self.problems else []
        if len(rows) > MOST_LINES:
            self.problems.add(rows[MOST_LINES].line, f"The list has more than {MOST_LINES} users.")
            rows = rows[:MOST_LINES]
        self._rows = [replace(row, domain=project.domain_id, project=project.name, roles=(role.name,)) for row in rows]
        self._plan = Plan(self._rows, self.problems, only=project)

    @cached_property
    def lines(self) -> list[Line]:
        """The lines in their order, wrong ones first. A line that could not be read has no user."""
        wrong: dict[int, list[str]] = {}
        for number, reason in self.problems:
            wrong.setdefault(number, []).append(reason)
        changed = {step.line for step in self._plan.steps}
        result = []
        for row in self._rows:
            reasons = tuple(wrong.pop(row.line, ()))
            if reasons:
                state = WRONG
            elif not self._plan.knows(row):
                state = NEW
            elif self.problems:
                state = EXISTS
            else:
                state = JOINS if row.line in changed else MEMBER
            result.append(Line(row.line, row.user, row.email, state, reasons))
        result += [Line(number, "", "", WRONG, tuple(reasons)) for number, reasons in wrong.items()]
        return sorted(result, key=lambda line: (line.state != WRONG, line.number))

    def count(self, state: str) -> int:
        """Return the number of lines in a state."""
        return sum(line.state == state for line in self.lines)

    @property
    def changes(self) -> bool:
        """Whether there is something to create or to assign."""
        return bool(self._plan.steps)

    def create(self) -> list[NewUser]:
        """Create all users and assign the role, in one transaction, and return the users with their passwords.

        Nothing is changed if a line is wrong, or if a service refuses one: then ``problems`` has the reason.
        """
        if self.problems:
            return []
        self._plan.prepare()
        self._plan.carry_out(lambda: None, keep=True)
        self.__dict__.pop("lines", None)
        return [] if self.problems else self._plan.generated
