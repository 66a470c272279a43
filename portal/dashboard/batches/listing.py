"""The list of the user's recent actions on many resources; live updates of the tray and of one action's results, which
depend on the user.
"""

from collections.abc import Collection, Sequence
from uuid import UUID

from django.db.models import Q
from django.template.loader import render_to_string

from portal.dashboard.frame.tray import Row, results_of, row_of, tray_for
from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import Column, Empty, Filter, RecordList, fixed
from portal.dashboard.lists.views import ListPage
from provisioning.batches import selectors
from provisioning.batches.kinds import KINDS
from provisioning.batches.models import Batch
from provisioning.batches.selectors import batch_for
from provisioning.batches.services import EVENT
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.events.selectors import LoggedEvent

STATES = (("running", "Running"), ("refused", "With resources not changed"))
_CONDITIONS = {"running": Q(finished_at=None), "refused": Q(unsuccessful__gt=0)}


def _rows(_: RequestContext, batches: Sequence[Batch]) -> list[Row]:
    return [row_of(each) for each in batches]


def _search(_: RequestContext, text: str) -> Q:
    """Match a part of the action's label or of the resources' noun, or a whole id."""
    result, part = Q(pk=read_id(text) or NOBODY), text.lower()
    for kind in KINDS.values():
        named = [each.name for each in kind.actions if part in each.label.lower()]
        result |= Q(kind=kind.name) if part in kind.plural.lower() else Q(kind=kind.name, action__in=named)
    return result


def _changed(events: Sequence[LoggedEvent]) -> Collection[UUID]:
    return {UUID(str(event.payload["id"])) for event in events if event.kind == EVENT}


def _label(row: Row) -> str:
    return row.label


BATCHES = RecordList[Batch](
    key="batches",
    model=Batch,
    one="action",
    noun="actions",
    rule="",
    row_id="batch",
    records=lambda context, _: selectors.batches_for(context),
    rows=_rows,
    default="-age",
    columns=(
        Column(
            "name",
            "Action",
            lambda row: cells.link(row.label, "dashboard:batch", row.batch.id),
            sort="action",
            plain=_label,
            css="name",
            titled=False,
        ),
        Column(
            "done",
            "Done",
            lambda row: row.progress if row.over else f"{row.progress}, running",
            sort="done",
            largest_first=True,
        ),
        Column(
            "unsuccessful",
            "Not changed",
            lambda row: row.batch.unsuccessful,
            sort="unsuccessful",
            css="num",
            largest_first=True,
        ),
        Column(
            "ended",
            "Ended",
            lambda row: cells.when(row.batch.finished_at),
            sort="finished_at",
            plain=lambda row: row.batch.finished_at or "",
            css="muted num text-nowrap",
            optional=True,
        ),
        Column(
            "age",
            "Age",
            lambda row: cells.ago(row.batch.created_at),
            sort="created_at",
            plain=lambda row: row.batch.created_at,
            css="muted num text-nowrap",
            largest_first=True,
        ),
    ),
    search=_search,
    find="Find by action or resource",
    filters=(Filter("state", "State", fixed(*STATES), lambda _, value: _CONDITIONS[value], quick=True),),
    empty=Empty(
        "list", "Nothing yet", "Select several rows in a list, for example of instances, and choose an action."
    ),
    kinds=frozenset({EVENT}),
    changed=_changed,
    named=lambda batch: row_of(batch).label,
)


class BatchList(ListPage):
    """The user's recent actions on many resources."""

    records = BATCHES
    heading = "Actions on many"
    lead = "Your actions on several resources of this project, with a result for each."


def render_tray(context: RequestContext) -> str:
    """Render the tray; it is empty for a context without the user."""
    return render_to_string("dashboard/batches/_tray.html", {"tray": tray_for(context)})


def render_batch(batch_id: str, context: RequestContext) -> str:
    """Render the results of one of the caller's batches, or nothing."""
    try:
        batch = batch_for(context, read_id(batch_id) or NOBODY)
    except NotFoundError:
        return ""
    return render_to_string("dashboard/batches/_results.html", {"row": row_of(batch), "results": results_of(batch)})
