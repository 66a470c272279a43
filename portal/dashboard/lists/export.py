"""CSV files of lists."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import unescape
from tempfile import SpooledTemporaryFile
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.html import strip_tags

from portal.dashboard.lists import find
from portal.dashboard.lists.declaration import Column, RecordList
from portal.dashboard.lists.list_query import ListQuery
from portal.web.streams import file_response
from provisioning.common.context import RequestContext

MOST = 20_000
"""Maximum number of rows of a file."""
PART = 500
"""Rows that are read and drawn together."""
IN_MEMORY = 1 << 20
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\N{FULLWIDTH EQUALS SIGN}", "\N{FULLWIDTH PLUS SIGN}")
"""First characters of texts that spreadsheets execute as formulas."""


def response(
    request: HttpRequest, context: RequestContext, the_list: RecordList[Any], list_query: ListQuery
) -> HttpResponseBase:
    """Return the matching rows with their ids and the shown columns, at most ``MOST``, as a download."""
    file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - the response closes it
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="", write_through=True)
    try:
        csv.writer(text).writerows(lines(context, the_list, list_query))
    except BaseException:
        file.close()
        raise
    text.detach()
    length = file.tell()
    file.seek(0)
    answer = file_response(request, file, length)
    answer["Content-Type"] = "text/csv; charset=utf-8"
    answer["Content-Disposition"] = f'attachment; filename="{the_list.key.replace("_", "-")}.csv"'
    return answer


def lines(context: RequestContext, the_list: RecordList[Any], list_query: ListQuery) -> Iterator[list[str]]:
    """Yield the headings and the rows."""
    columns = [each for each in list_query.shown(the_list, context) if each.key != "id" and not each.picture]
    yield ["ID", *(each.label for each in columns)]
    ids = find.all_ids(context, the_list, list_query, MOST)
    for start in range(0, len(ids), PART):
        records = find.records_of(context, the_list, list_query, ids[start : start + PART])
        for record, row in zip(records, the_list.rows(context, records), strict=True):
            yield [str(record.pk), *_values(columns, row)]


def _values(columns: Sequence[Column], row: Any) -> Iterator[str]:
    for each in columns:
        value = (each.plain or each.draw)(row)
        yield plain(value, html=each.plain is None)


def plain(value: object, *, html: bool = False) -> str:
    """Format a value; a text that a spreadsheet would execute gets an apostrophe in front of it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    if value is None or isinstance(value, int | float):
        return "" if value is None else str(value)
    text = str(value)
    if html and hasattr(value, "__html__"):
        text = " ".join(unescape(strip_tags(text.replace("<", " <"))).split())
    text = text.replace("\0", "")
    return f"'{text}" if text.startswith(FORMULA) else text
