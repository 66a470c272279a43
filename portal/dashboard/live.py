"""What a page's socket sends: the page's own partials, rendered anew for what happened."""

import uuid
from collections.abc import Collection, Sequence

from django.template.loader import render_to_string

from portal.dashboard import wording
from portal.dashboard.images.rows import rows_for as image_rows
from portal.dashboard.images.rows import said_of
from portal.dashboard.instances.detail import detail_for
from portal.dashboard.instances.rows import rows_for
from portal.dashboard.overview.views import parts_for
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.listing import Sort
from provisioning.compute import selectors as compute
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy
from provisioning.images import selectors

INSTANCE, IMAGE = "instance", "image"
"""The kinds of events that change these pages."""


def render(page: str, events: Sequence[LoggedEvent], context: RequestContext) -> str:
    """Return the elements of ``page`` that these events change, as HTML with ids; empty when they change nothing.

    Pages: ``overview``, ``instances``, ``instance/<uuid>``, ``images``.  State is read now, so that many events make
    one answer.
    """
    if page == "images":
        return _images({uuid.UUID(event.payload["id"]) for event in events if event.kind == IMAGE}, context)
    changed = {uuid.UUID(event.payload["id"]): event.payload for event in events if event.kind == INSTANCE}
    if not changed:
        return ""
    if page == "overview":
        return _overview(context)
    rule = "os_compute_api:servers:detail" if page == "instances" else "os_compute_api:servers:show"
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
    instances = compute.instances_for(context, ids=ids, sort=[Sort("created_at", descending=False)])
    rows = [render_to_string("dashboard/instances/_row.html", {"row": row}) for row in rows_for(context, instances)]
    gone = set(ids) - {item.id for item in instances}
    return "".join([*rows, *(f'<tr id="instance-{key}" data-live-remove></tr>' for key in gone)])


def _images(ids: set[uuid.UUID], context: RequestContext) -> str:
    """Render the rows of images whose import moved on or ended."""
    if not ids or not policy.allows(context, "get_images"):
        return ""
    images = selectors.images_by_id(context, ids)
    rows = [{**row, "said": said_of(row)} for row in image_rows(context, images)]
    shown = [render_to_string("dashboard/images/_row.html", {"row": row}) for row in rows]
    gone = ids - {image.id for image in images}
    return "".join([*shown, *(f'<tr id="image-{key}" data-live-remove></tr>' for key in gone)])


def _instance(instance_id: str, name: str, context: RequestContext) -> str:
    try:
        instance = compute.instance_for(context, instance_id)
    except NotFoundError:
        gone = {"name": name, "gone": wording.INSTANCE_STATUS["DELETED"]}
        return render_to_string("dashboard/instances/_deleted.html", gone)
    return render_to_string("dashboard/instances/_live.html", detail_for(context, instance))
