"""HTML of a list: headings and rows. In Python, as templates would be slow in long lists."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import Column, RecordList
from portal.dashboard.lists.find import IdPage
from portal.dashboard.lists.list_query import ListQuery
from portal.dashboard.words.markup import escaped, format_html

DASH = SafeString('<span class="faint">\N{EN DASH}</span>')


@dataclass(frozen=True, slots=True)
class Foot:
    """The line below a list: the number of its rows, and the addresses of other pages, empty if there are none."""

    text: str = ""
    first: str = ""
    previous: str = ""
    next: str = ""
    last: str = ""


def foot(the_list: RecordList[Any], list_query: ListQuery, id_page: IdPage) -> Foot:
    """Return the line below a page of the list."""
    total = f"{id_page.total:,} {the_list.noun if id_page.total != 1 else the_list.one}"
    if id_page.pages == 1:
        return Foot(total if id_page.total else "")
    back, on = id_page.page > 1, id_page.page < id_page.pages
    return Foot(
        f"{id_page.first:,}\N{EN DASH}{id_page.last:,} of {total}",
        first=list_query.query() if back else "",
        previous=list_query.query(page=id_page.page - 1) if back else "",
        next=list_query.query(page=id_page.page + 1) if on else "",
        last=list_query.query(page=id_page.pages) if on else "",
    )


def headings(
    the_list: RecordList[Any], list_query: ListQuery, columns: Sequence[Column], *, ordered: bool
) -> SafeString:
    """Render the headings. Headings by which the list can be sorted are links. ``ordered``: whether the default order
    is the order of a column.
    """
    now = list_query.sort or (the_list.default if ordered else "")
    drawn = [_heading(column, list_query, now) for column in columns]
    if the_list.actions:
        drawn.append('<th scope="col" class="end"><span class="visually-hidden">Actions</span></th>')
    return mark_safe("".join(drawn))  # noqa: S308 - of escaped parts


def rows(
    the_list: RecordList[Any],
    columns: Sequence[Column],
    found: Iterable[tuple[Any, Any]],
    *,
    selectable: bool,
    announced: Container[Any] | None = (),
) -> SafeString:
    """Render the rows of pairs of a record and its row.

    ``announced``: ids of the records whose announcement is added for screen readers; None: all.
    """
    frames = [(_cell_start(each), _cell_start(each, blank=True), each.draw) for each in columns]
    prefix = the_list.row_id or the_list.key
    drawn: list[str] = []
    for record, row in found:
        announcement = (
            the_list.announcement(row)
            if the_list.announcement and (announced is None or record.pk in announced)
            else ""
        )
        announcement = format_html(' data-live-say="{}"', announcement) if announcement else ""
        drawn.append(f'<tr id="{prefix}-{record.pk}"{announcement}>')
        if selectable:
            drawn.append(_pick(record.pk, the_list.named(record)))
        for start, blank, draw in frames:
            value = escaped(draw(row))
            drawn += (start, value, "</td>") if value else (blank, DASH, "</td>")
        if the_list.actions:
            drawn += ('<td class="end text-nowrap">', escaped(the_list.actions(row)), "</td>")
        drawn.append("</tr>")
    return mark_safe("".join(drawn))  # noqa: S308 - of escaped parts


def _heading(column: Column, list_query: ListQuery, now: str) -> str:
    if column.sort is None:
        return format_html('<th scope="col">{}</th>', column.label)
    ascending, descending = now == column.key, now == f"-{column.key}"
    falls = not descending if ascending or descending else column.largest_first
    sort, arrow = cells.NOTHING, cells.NOTHING
    if ascending or descending:
        sort = format_html(' aria-sort="{}"', "descending" if descending else "ascending")
        arrow = cells.icon("arrow-down" if descending else "arrow-up")
    return format_html(
        '<th scope="col"{}><a id="sort-{}" href="{}">{}{}</a></th>',
        sort,
        column.key,
        list_query.query(sort=f"-{column.key}" if falls else column.key),
        column.label,
        arrow,
    )


def _cell_start(column: Column, *, blank: bool = False) -> SafeString:
    label = format_html(' data-label="{}"', column.label) if column.titled else ""
    css = f"{column.css} blank".strip() if blank else column.css
    return format_html("<td{}{}>", label, format_html(' class="{}"', css) if css else "")


def _pick(ident: object, name: str) -> SafeString:
    return format_html(
        '<td class="pick"><input class="form-check-input" type="checkbox" name="id" value="{}" '
        'aria-label="Select {}"></td>',
        ident,
        name,
    )
