"""The list of failures: the messages of Block Storage about tasks of volumes, snapshots and backups."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Model, QuerySet

from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import Column, Empty, Filter, RecordList, fixed, same, searched
from portal.dashboard.lists.views import ListPage
from portal.dashboard.volumes import rows
from provisioning.common.context import RequestContext
from provisioning.volumes import selectors
from provisioning.volumes.models import Message
from provisioning.volumes.selectors import copies, offers

RULE = "message:get_all"
KINDS = {"VOLUME": "Volume", "VOLUME_SNAPSHOT": "Snapshot", "VOLUME_BACKUP": "Backup"}
"""Type of the resource of a message → its label."""
Row = dict[str, Any]


def _resources(kind: str, rows: QuerySet[Any], messages: Iterable[Message]) -> dict[uuid.UUID, Model]:
    """Return id → existing resource of the messages about this kind."""
    ids = {each.resource_id for each in messages if each.resource_type == kind}
    return {row.pk: row for row in rows.filter(pk__in=ids)} if ids else {}


def _rows(context: RequestContext, messages: Sequence[Message]) -> list[Row]:
    known: Mapping[Any, Model] = {
        **_resources("VOLUME", selectors.visible_volumes(context), messages),
        **_resources("VOLUME_SNAPSHOT", selectors.visible_snapshots(context), messages),
        **_resources("VOLUME_BACKUP", copies.visible_backups(context), messages),
    }
    return [{"message": each, "resource": known.get(each.resource_id)} for each in messages]


def _text(row: Row) -> str:
    return rows.failure(row["message"]).text


def _kind(row: Row) -> str:
    kind: str = row["message"].resource_type
    return KINDS.get(kind, kind.replace("_", " ").capitalize())


def _resource(row: Row) -> object:
    message, resource = row["message"], row["resource"]
    if resource is None:
        return cells.mono(message.resource_id) if message.resource_id else ""
    return cells.record(resource, "dashboard:volume") if message.resource_type == "VOLUME" else cells.name(resource)


FAILURES = RecordList[Message](
    key="volume_failures",
    model=Message,
    one="failure",
    noun="failures",
    rule=RULE,
    row_id="failure",
    records=lambda context, _: offers.messages_for(context),
    rows=_rows,
    default="-age",
    columns=(
        Column("text", "Failure", lambda row: cells.bdi(_text(row)), sort="text", plain=_text, titled=False),
        Column("kind", "Kind", _kind, sort="resource_type", css="muted"),
        Column(
            "resource",
            "Resource",
            _resource,
            sort="resource_id",
            plain=lambda row: row["resource"] or row["message"].resource_id or "",
        ),
        columns.age("message"),
        columns.attribute("request_id", "Request ID", "message", css="mono xsmall muted breaks", optional=True),
        columns.ident("message"),
    ),
    search=searched("text", "request_id", exact=("pk", "resource_id")),
    find="Find by text or ID",
    filters=(Filter("kind", "Kind", fixed(*KINDS.items()), same("resource_type"), quick=True),),
    kinds=frozenset({"volume"}),
    empty=Empty("check-circle", "No failures", "Tasks of volumes, snapshots and backups that fail are listed here."),
)


class FailureList(ListPage):
    """The reasons of failed tasks of volumes, snapshots and backups of the project."""

    records = FAILURES
    lead = "Why tasks of volumes, snapshots and backups failed. Older failures are deleted."
