"""Columns and filters that several lists have. Their rows are dictionaries."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from portal.common.statuses import Status
from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import BY_NAME, Column, Filter, SortKey, fixed, same

Row = Mapping[str, Any]


def name(draw: Callable[[Any], object], plain: Callable[[Any], object], sort: SortKey = BY_NAME) -> Column:
    """Return the first column, which has no label on phones."""
    return Column("name", "Name", draw, sort=sort, plain=plain, css="name", titled=False)


def status(of: str, error: str = "") -> Column:
    """Return the column with ``row["status"]`` and the text of the record ``row[of]`` that explains an error."""
    text = attrgetter(error) if error else lambda _: ""
    return Column(
        "status",
        "Status",
        lambda row: cells.status(row["status"]) + cells.sub(cells.bdi(text(row[of]))),
        sort="status",
        plain=lambda row: row["status"].word,
        titled=False,
    )


def status_filter(words: Mapping[str, Status], only: Iterable[str] = (), *, quick: bool = False) -> Filter:
    """Return the filter by the column ``status``; ``only``: these of the statuses."""
    choices = [(str(key), words[key].word) for key in only or words]
    return Filter("status", "Status", fixed(*choices), same("status"), quick=quick)


def age(of: str, *, optional: bool = False) -> Column:
    """Return the column with the age of the record ``row[of]``."""
    return Column(
        "age",
        "Age",
        lambda row: cells.ago(row[of].created_at),
        sort="created_at",
        plain=lambda row: row[of].created_at,
        css="muted num text-nowrap",
        optional=optional,
        largest_first=True,
    )


def attribute(
    key: str, label: str, of: str, *, css: str = "", optional: bool = False, sort: SortKey | None = None
) -> Column:
    """Return the column of an attribute ``key`` of the record ``row[of]``."""
    value = attrgetter(key)
    return Column(key, label, lambda row: _shown(value(row[of])), sort=sort or key, css=css, optional=optional)


def ident(of: str) -> Column:
    """Return the column with the id of the record ``row[of]``."""
    return Column("id", "ID", lambda row: row[of].pk, sort="pk", css="mono xsmall muted breaks", optional=True)


def _shown(value: object) -> object:
    return cells.bdi(value) if isinstance(value, str) else "" if value is None else value
