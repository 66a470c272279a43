"""The selected rows of a list, as its form sends them to the address of a bulk action.

``selection=ids`` (the default) with one ``id`` for each row, or ``selection=all`` for all rows that match; with both,
the list's query: ``q``, the filters and ``sort``.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, cast

from portal.dashboard.lists import find
from portal.dashboard.lists.declaration import RecordList
from portal.dashboard.lists.list_query import ListQuery
from provisioning.common.values.ids import read_id

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.dashboard.frame.pages import PageRequest
    from provisioning.common.context import RequestContext

MOST = 1000
"""Maximum number of selected rows."""
ALL = "all"
ID = "id"


def resolve(request: HttpRequest, the_list: RecordList[Any], most: int = MOST) -> list[Any]:
    """Return the ids of the selected records that the caller sees, in the list's order, at most ``most``.

    With ``selection=all`` these are the records that match now. Records selected by id need not match the filters
    any longer. Unknown ids and ids of other projects' records are ignored.
    """
    data = request.POST if request.method == "POST" else request.GET
    context = cast("RequestContext", cast("PageRequest", request).context)
    list_query = ListQuery.of(the_list, context, data)
    if data.get("selection") == ALL:
        return find.all_ids(context, the_list, list_query, most)
    known = [key for text in data.getlist(ID)[:most] if (key := _key(text, the_list)) is not None]
    return find.present(context, the_list, list_query, known) if known else []


def fields(request: HttpRequest, the_list: RecordList[Any]) -> list[tuple[str, str]]:
    """Return the selection as names and values, for a form that asks for confirmation."""
    data = request.POST if request.method == "POST" else request.GET
    context = cast("RequestContext", cast("PageRequest", request).context)
    query = ListQuery.of(the_list, context, data).pairs()
    if data.get("selection") == ALL:
        return [("selection", ALL), *query]
    return [("selection", "ids"), *((ID, each) for each in data.getlist(ID)[:MOST]), *query]


def _key(text: str, the_list: RecordList[Any]) -> uuid.UUID | str | int | None:
    """Return an id in the type of the records' primary key; None if it is invalid."""
    kind = the_list.model._meta.pk.get_internal_type()
    if kind == "UUIDField":
        return read_id(text)
    if kind.endswith(("AutoField", "IntegerField")):
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
    return text.replace("\0", "")[:255] or None
