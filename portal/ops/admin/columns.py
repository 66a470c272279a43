"""Columns and filters of the admin's lists."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.common import statuses
from provisioning.identity.selectors.lookups import projects_by_id

FULL = 0.9
"""The share of a limit from which a meter is red."""


def link_to(row: Model | None, words: str = "") -> str | SafeString:
    """Return a link to the page of a record."""
    if row is None:
        return "-"
    page = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return format_html('<a href="{}">{}</a>', page, words or row)


def rows_link(model: type[Model], lookup: str, key: object, words: object) -> SafeString:
    """Return a link to the list of a model, filtered by a value."""
    page = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return format_html('<a href="{}?{}={}">{}</a>', page, lookup, key, words)


def tag(tone: str, word: object, title: str = "") -> SafeString:
    """Render a status; tones are ok, busy, warn, bad, off."""
    about = format_html(' title="{}"', title) if title else ""
    return format_html('<span class="status {}"{}>{}</span>', tone, about, word)


def status(row: Any) -> SafeString:
    """Render the status of a record in the words of the dashboard, with its error as title."""
    shown = statuses.status_of(row)
    return tag(shown.tone, shown.word, getattr(row, "error", ""))


def pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(values.items())) or "-"


def meter(used: float, limit: float, words: object, *, reserved: int = 0) -> SafeString:
    """Render a bar with its words; the last ``reserved`` percent of it are marked as reserved."""
    percent = min(100 * used / limit, 100) if limit > 0 else 0
    return format_html(
        '<span class="meter-cell"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8"/><rect class="kept" x="{}" width="{}" height="8"/>'
        '<rect class="{}" width="{}" height="8"/></svg>{}</span>',
        100 - reserved,
        reserved,
        "over" if percent >= FULL * (100 - reserved) else "this",
        f"{percent:.1f}",
        words,
    )


Reader = Callable[[Sequence[Any]], Mapping[Any, Any]]
"""Returns the values of a column for the rows of a page by primary key, with a fixed number of queries."""


def column(
    label: str,
    value: str | Callable[..., Any] | None = None,
    *,
    read: Reader | None = None,
    ordering: str = "",
    link: bool = False,
    boolean: bool = False,
    empty_value: str | None = None,
) -> Callable[[Any, Any], object]:
    """Declare a column of a list, or a field of a page.

    ``value`` is a path of attributes of the record, such as ``router.name``, or a function of the record. ``read``
    returns values for all rows of the page; ``value`` is then a function of a record and its value of ``read``, and by
    default the column shows the value of ``read``. ``link``: a value that is a record, or a list of records, is shown
    as links to their pages. ``ordering`` is a field, or an annotation of the page's rows.
    """
    get: Callable[..., Any] = attrgetter(value) if isinstance(value, str) else value or (lambda _, found: found)

    def shown(page: Any, row: Any) -> object:
        found = get(row) if read is None else get(row, _read(shown, [row])[row.pk])
        return _linked(found) if link else found

    shown.read = read  # type: ignore[attr-defined]
    return admin.display(
        shown,
        description=label,
        ordering=ordering or None,
        boolean=boolean or None,
        empty_value=empty_value,  # type: ignore[arg-type]  # the stubs' overloads know one of both
    )


def _linked(value: Any) -> object:
    if isinstance(value, Model):
        return link_to(value)
    if isinstance(value, list):
        return format_html_join(", ", "{}", ((_linked(each),) for each in value)) or "-"
    return "-" if value is None else value


def read_columns(columns: Sequence[Any], rows: Sequence[Any]) -> None:
    """Read the values of the columns that have ``read``, together for all rows of a page."""
    for each in columns:
        if getattr(each, "read", None):
            _read(each, rows)


def _read(shown: Any, rows: Sequence[Any]) -> Mapping[Any, Any]:
    """Return the values of a column by primary key; each row keeps those that were read."""
    missing = [row for row in rows if shown not in vars(row).setdefault("_columns", {})]
    values = shown.read(missing) if missing else {}
    for row in missing:
        vars(row)["_columns"][shown] = values.get(row.pk)
    return {row.pk: vars(row)["_columns"][shown] for row in rows}


def by_id(find: Callable[[set[Any]], Mapping[Any, Any]], key: str, missing: str = "{}") -> Reader:
    """Return the reader of the records whose ids are in ``key``. The value is ``missing`` with the id for a deleted
    record, and None without an id.
    """
    get = attrgetter(key)

    def read(rows: Sequence[Any]) -> dict[Any, Any]:
        ids = {row.pk: get(row) for row in rows}
        records = find({each for each in ids.values() if each is not None})
        return {row: None if each is None else records.get(each, missing.format(each)) for row, each in ids.items()}

    return read


PROJECT = column("project", read=by_id(projects_by_id, "project_id"), ordering="project_id", link=True)


class StatusFilter(admin.AllValuesFieldListFilter):
    """Filters a list by a status, in the words of the dashboard."""

    def choices(self, changelist: Any) -> Any:
        kind = changelist.model._meta.label
        first, *others = super().choices(changelist)
        yield first
        for choice in others:
            yield {**choice, "display": statuses.named(kind, str(choice["display"])).word}


class ValuesFilter(admin.AllValuesFieldListFilter):
    """Filters a list by a text that may be empty; the choice for the empty text is shown as ``none``."""

    def choices(self, changelist: Any) -> Any:
        for choice in super().choices(changelist):
            yield {**choice, "display": choice["display"] or "none"}
