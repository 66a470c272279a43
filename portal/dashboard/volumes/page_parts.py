"""The parts of a volume's page, and their live updates."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from portal.dashboard.lists import draw, users
from portal.dashboard.lists.declaration import RecordList
from portal.dashboard.lists.list_query import ListQuery
from portal.dashboard.records.views import other_project
from portal.dashboard.volumes.listing import BACKUPS, SNAPSHOTS
from portal.dashboard.volumes.rows import failure, names_of, row_of
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute.disks.block_devices import roots_among
from provisioning.identity import policy
from provisioning.volumes import selectors
from provisioning.volumes.selectors import copies, offers

FAILURES = 5
"""Number of the newest failures shown on the page of a volume."""


def page_parts(context: RequestContext, identity: str | uuid.UUID, _number: str = "") -> dict[str, Any]:
    """Return the context of the page of a volume. Raises VolumeNotFoundError."""
    volume = selectors.volume_for(context, identity)
    names = names_of(context, [volume])
    snapshots = selectors.visible_snapshots(context).filter(volume=volume).order_by("-created_at", "-id")
    backups = copies.visible_backups(context).filter(volume_id=volume.id).order_by("-created_at", "-id")
    sees_backups = policy.allows(context, "backup:get_all")
    messages = offers.messages_for(context).filter(resource_id=volume.id)
    row = row_of(context, volume, names)
    roots = roots_among([use["attachment"].id for use in row["users"]])
    return {
        "row": {**row, "users": [_of_root(use) if use["attachment"].id in roots else use for use in row["users"]]},
        "user": users.Users([volume.user_id]).name(volume.user_id),
        "project": other_project(context, volume.project_id),
        "limits": selectors.iotune_of(volume),
        "sees_snapshots": policy.allows(context, "volume:get_all_snapshots"),
        "snapshots": _drawn(SNAPSHOTS, context, list(snapshots)),
        "sees_backups": sees_backups,
        "backups": _drawn(BACKUPS, context, list(backups)) if sees_backups else "",
        "failures": [failure(each) for each in messages.order_by("-created_at", "-id")[:FAILURES]],
        "place": volume.pool if policy.allows(context, "volume_extension:volume_host_attribute") else None,
    }


def _drawn(the_list: RecordList[Any], context: RequestContext, rows: Sequence[Any]) -> SafeString:
    """Render rows of a list without the column of their volume."""
    columns = [each for each in ListQuery().shown(the_list, context) if each.key != "volume"]
    pairs = zip(rows, the_list.rows(context, rows), strict=True)
    return draw.rows(the_list, columns, pairs, selectable=False)


def _of_root(use: dict[str, Any]) -> dict[str, Any]:
    return {**use, "is_root": True, "can_detach": False}


def render(page: str, context: RequestContext) -> str:
    """Return the page's parts as HTML with ids; empty if the caller may not see them.

    NotFoundError is rendered as a notice.
    """
    _, _, rest = page.partition("/")
    if not policy.allows(context, "volume:get", {"project_id": context.project_id}):
        return ""
    try:
        return render_to_string("dashboard/volumes/volumes/_live.html", page_parts(context, rest))
    except NotFoundError:
        return render_to_string("dashboard/records/_gone.html")
