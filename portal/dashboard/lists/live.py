"""Live updates of lists: the changed rows, the order of all rows on the page, and their number."""

from collections.abc import Sequence
from typing import Any

from django.http import QueryDict
from django.template.loader import render_to_string
from django.utils.html import format_html

from portal.dashboard.lists import draw, find
from portal.dashboard.lists.declaration import RecordList
from portal.dashboard.lists.list_query import ListQuery
from provisioning.common.context import RequestContext
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy


def render(the_list: RecordList[Any], query: str, events: Sequence[LoggedEvent], context: RequestContext) -> str:
    """Return a table and the line with the number of rows. The table's body has the changed rows of this page of the
    list and the ids of all its rows. Empty if the events change no row, or if the caller may not see the list.
    ``query`` is the query in ``ListQuery.live_name``. The browser puts new rows where the order has them, and removes
    others.
    """
    changed = None if the_list.changed is None else set(the_list.changed(events))
    if (changed is not None and not changed) or (the_list.rule and not policy.allows(context, the_list.rule)):
        return ""
    list_query = ListQuery.of(the_list, context, QueryDict(query))
    page = find.find(context, the_list, list_query)
    drawn = page.ids if changed is None else [key for key in page.ids if key in changed]
    records = find.records_of(context, the_list, list_query, drawn)
    pairs = zip(records, the_list.rows(context, records), strict=True)
    prefix = the_list.row_id or the_list.key
    rows = draw.rows(
        the_list,
        list_query.shown(the_list, context),
        pairs,
        selectable=bool(the_list.bulk(context)),
        announced=None if the_list.announced is None else set(the_list.announced(events)),
    )
    order = " ".join(f"{prefix}-{key}" for key in page.ids)
    body = format_html('<table><tbody id="list-rows" data-live-order="{}">{}</tbody></table>', order, rows)
    return body + render_to_string("dashboard/lists/_foot.html", {"foot": draw.foot(the_list, list_query, page)})
