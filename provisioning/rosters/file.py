"""Parsing of a roster: a CSV file with one row for each user and project."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.identity.models import LONG, SHORT
from provisioning.identity.services.checks import check_name
from provisioning.identity.services.passwords import check_new_password
from provisioning.quotas.limits import DEFAULTS, UNLIMITED

LARGEST = 10_000_000
"""Maximum bytes of a roster."""
COLUMNS = {
    "user": "user",
    "domain": "domain",
    "email": "email",
    "password": "password",
    "project": "project",
    "role": "roles",
    "roles": "roles",
    "group": "groups",
    "groups": "groups",
}
"""Column → field of Row; ``quota_`` with the name of a quota is a column as well."""
QUOTA = "quota_"
_QUOTAS = {QUOTA + name for name in DEFAULTS}


@dataclass(frozen=True, slots=True)
class Row:
    """One user and its roles and quotas on one project; empty texts are ignored."""

    line: int
    user: str
    domain: str = ""
    email: str = ""
    password: str = field(default="", repr=False)
    project: str = ""
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    quotas: tuple[tuple[str, int], ...] = ()


class Problems(list[tuple[int, str]]):
    """Errors with their lines."""

    def add(self, line: int, sentence: str) -> None:
        self.append((line, sentence))

    def check(self, line: int, function: Callable[..., object], *arguments: object) -> None:
        """Call the function; add its InvalidInputError, if it raises one, with the line."""
        try:
            function(*arguments)
        except InvalidInputError as error:
            self.add(line, error.message)

    def __str__(self) -> str:
        return "\n".join(f"line {line}: {sentence}" for line, sentence in sorted(self))


def read(data: bytes, problems: Problems, *, only: Sequence[str] = ()) -> list[Row]:
    """Return the rows of a file separated by commas, semicolons or tabs, and collect errors.

    ``only``: the columns that are possible, if not all are. A file whose first line names no column has these.
    """
    text = _decoded(data, problems)
    lines = _records(text, problems)
    line, header = next(lines, (1, []))
    if only and header and not any(cell.strip().lower() in COLUMNS for cell in header):
        columns, lines = list(only), chain([(line, header)], lines)
    else:
        columns = _columns(line, header, problems)
        for column in columns if only else ():
            if column and column not in only:
                problems.add(line, f"The column {column!r} is not possible here, only {' and '.join(only)}.")
    if problems:
        return []
    rows = []
    for line, cells in lines:
        if any(cell.strip() for cell in cells[len(columns) :]):
            problems.add(line, f"There are {len(cells)} cells under {len(columns)} columns.")
            continue
        rows.append(_row(line, dict(zip(columns, cells, strict=False)), problems))
    return rows


def _decoded(data: bytes, problems: Problems) -> str:
    if len(data) > LARGEST:
        problems.add(1, f"The file has more than {LARGEST} bytes.")
        return ""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        problems.add(data[: error.start].count(b"\n") + 1, "This is not UTF-8. Save the file as CSV in UTF-8.")
        return ""


def _records(text: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the records that are not blank, with their first line number."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problems.add(line, f"This is not a CSV file: {error}.")
            return
        if any(cell.strip() for cell in record):
            yield line, record
        line = reader.line_num + 1


def _columns(line: int, header: list[str], problems: Problems) -> list[str]:
    """Return the content of each column: the name of a field of Row, or ``quota_`` with the name of a quota."""
    columns = []
    for cell in header:
        name = cell.strip().lower()
        column = COLUMNS.get(name) or (name if name in _QUOTAS else "")
        if not column:
            problems.add(line, f"{name!r} is not a column. Columns are {', '.join(COLUMNS)}, {QUOTA}cores and so on.")
        elif column in columns:
            problems.add(line, f"The column {name!r} appears twice.")
        columns.append(column)
    if not problems and "user" not in columns:
        problems.add(line, "The first line must name the columns, and one of them must be user.")
    return columns


def _row(line: int, cells: dict[str, str], problems: Problems) -> Row:
    def text(name: str) -> str:
        return cells.get(name, "").strip()

    quotas = []
    for name in cells:
        if name.startswith(QUOTA) and text(name):
            number = _limit(text(name))
            if number is None:
                problems.add(
                    line, f"{name} must be -1 (unlimited) or a whole number up to {MAX_INTEGER}, not {text(name)!r}."
                )
            else:
                quotas.append((name.removeprefix(QUOTA), number))
    row = Row(
        line,
        text("user"),
        text("domain"),
        text("email"),
        cells.get("password", ""),
        text("project"),
        _words(text("roles")),
        _words(text("groups")),
        tuple(quotas),
    )
    _check(row, problems)
    return row


def _check(row: Row, problems: Problems) -> None:
    """Check a single row."""
    problems.check(row.line, check_name, row.user, LONG, "user")
    if row.email:
        try:
            validate_email(row.email)
        except ValidationError:
            problems.add(row.line, f"{row.email!r} is not an e-mail address.")
    if row.password:
        problems.check(row.line, check_new_password, row.password)
    if row.project:
        problems.check(row.line, check_name, row.project, SHORT, "project")
    for group in row.groups:
        problems.check(row.line, check_name, group, SHORT, "group")
    if row.project and not row.roles:
        problems.add(row.line, f"There is no role for the project {row.project}.")
    if row.roles and not row.project:
        problems.add(row.line, "There are roles without a project.")
    if row.quotas and not row.project:
        problems.add(row.line, "There are quotas without a project.")


def _words(text: str) -> tuple[str, ...]:
    """Return the words between commas, semicolons or bars."""
    return tuple(dict.fromkeys(word.strip() for word in re.split("[,;|]", text) if word.strip()))


def _limit(text: str) -> int | None:
    if not re.fullmatch(r"-1|[0-9]{1,10}", text, re.ASCII):
        return None
    return int(text) if UNLIMITED <= int(text) <= MAX_INTEGER else None
