"""What a page's socket sends: the page's own partials, rendered anew for what happened."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from django.template.loader import render_to_string

from portal.dashboard import wording
from portal.dashboard.instances.detail import detail_for
from portal.dashboard.instances.rows import rows_for
from portal.dashboard.overview.views import parts_for
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors as compute
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy

INSTANCE = "instance"
"""The kind of event that changes these pages."""


def render(page: str, events: Sequence[LoggedEvent], context: RequestContext) -> str:
    """Return the elements of ``page`` that these events change, as HTML with ids; empty when they change nothing.

    Pages: ``overview``, ``instances``, ``instance/<uuid>``.  State is read now, so that many events make one answer.
    """
    changed = {uuid.UUID(event.payload["id"]): event.payload for event in events if event.kind == INSTANCE}
    if not changed:
        return ""
    if page == "overview":
        return _overview(context)
    rule = "compute:servers:list" if page == "instances" else "compute:servers:show"
    if not policy.allows(context, rule):
        return ""
    if page == "instances":
        return _instances(changed.keys(), context)
    kind, _, instance_id = page.partition("/")
    found = next((payload for key, payload in changed.items() if str(key) == instance_id), None)
    return _instance(found["id"], found["name"], context) if kind == "instance" and found else ""


def _overview(context: RequestContext) -> str:
    parts = parts_for(context)
    return "".join(render_to_string(f"dashboard/overview/_{name}.html", parts) for name in ("quota", "recent"))


def _instances(ids: Collection[uuid.UUID], context: RequestContext) -> str:
    """Render the rows, oldest first, so that each new one is put before the others; deleted ones are taken away."""
    instances = compute.instances_for(context, ids=ids, sort=(("created_at", "asc"),))
    rows = [render_to_string("dashboard/instances/_row.html", {"row": row}) for row in rows_for(context, instances)]
    gone = set(ids) - {item.id for item in instances}
    return "".join([*rows, *(f'<tr id="instance-{key}" data-live-remove></tr>' for key in gone)])


def _instance(instance_id: str, name: str, context: RequestContext) -> str:
    try:
        instance = compute.instance_for(context, instance_id)
    except NotFoundError:
        gone = {"name": name, "gone": wording.INSTANCE_STATUS["DELETED"]}
        return render_to_string("dashboard/instances/_gone.html", gone)
    return render_to_string("dashboard/instances/_live.html", detail_for(context, instance))
