"""What a page's socket sends: the page's own partials, rendered anew for what happened."""

import uuid
from collections.abc import Collection, Mapping, Sequence

from django.template.loader import render_to_string

from portal.dashboard import wording
from portal.dashboard.images.rows import rows_for as image_rows
from portal.dashboard.images.rows import said_of
from portal.dashboard.instances.detail import detail_for
from portal.dashboard.instances.disks import disks_for
from portal.dashboard.instances.listing import matching
from portal.dashboard.instances.reach import reach_for
from portal.dashboard.instances.rows import rows_for
from portal.dashboard.network import live as network
from portal.dashboard.overview.views import parts_for
from portal.dashboard.topology.views import picture_for
from portal.dashboard.volumes import live as volumes
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors as compute
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy
from provisioning.images import selectors

INSTANCE, IMAGE, NETWORK, VOLUME = "instance", "image", "network", "volume"
"""The kinds of events that change these pages."""


def render(page: str, events: Sequence[LoggedEvent], context: RequestContext) -> str:
    """Return the elements of ``page`` that these events change, as HTML with ids; empty when they change nothing.

    Pages: ``overview``, ``instances`` (with ``?`` and its filter), ``instance/<uuid>``, ``images``, ``topology``, those
    of networking and of volumes.
    State is read now, so that many events make one answer.
    """
    if page == "images":
        return _images({uuid.UUID(event.payload["id"]) for event in events if event.kind == IMAGE}, context)
    if network.follows(page):
        return network.render(page, context) if any(event.kind in {INSTANCE, NETWORK} for event in events) else ""
    if volumes.follows(page):
        return volumes.render(page, context) if any(event.kind in {INSTANCE, VOLUME} for event in events) else ""
    if page.partition("/")[0] == "topology":
        return (
            _topology(page.partition("/")[2], context)
            if any(event.kind in {INSTANCE, NETWORK} for event in events)
            else ""
        )
    changed = _changed_instances(events)
    if page.startswith("instance/"):
        networking = any(event.kind == NETWORK for event in events)
        parts = _one_instance(page, changed, context)
        if not parts and any(event.kind == VOLUME for event in events):
            parts = _disks(page, context)
        return parts or (_reach(page, context) if networking else "")
    if page == "overview":
        return _overview(context) if changed or any(event.kind == VOLUME for event in events) else ""
    if not changed:
        return ""
    name, _, narrowed = page.partition("?")
    if name != "instances" or not policy.allows(context, "os_compute_api:servers:detail"):
        return ""
    return _instances(changed.keys(), narrowed, context)


def _changed_instances(events: Sequence[LoggedEvent]) -> dict[uuid.UUID, str]:
    """Return the instances that events change, each with its name; of networking alone, no name is known."""
    led = {key: "" for event in events if event.kind == NETWORK for key in event.payload.get("instances", ())}
    own = {event.payload["id"]: event.payload["name"] for event in events if event.kind == INSTANCE}
    return {uuid.UUID(key): name for key, name in (led | own).items()}


def _overview(context: RequestContext) -> str:
    parts = parts_for(context)
    return "".join(render_to_string(f"dashboard/overview/_{name}.html", parts) for name in ("quota", "recent"))


def _topology(opened: str, context: RequestContext) -> str:
    if not policy.allows(context, "get_network"):
        return ""
    can_launch = policy.allows(context, "os_compute_api:servers:create")
    return render_to_string(
        "dashboard/topology/_picture.html", {**picture_for(context, opened), "can_launch": can_launch}
    )


def _one_instance(page: str, changed: Mapping[uuid.UUID, str], context: RequestContext) -> str:
    """Render all of an instance that something happened to."""
    if not policy.allows(context, "os_compute_api:servers:show"):
        return ""
    instance_id = page.partition("/")[2]
    found = next((name for key, name in changed.items() if str(key) == instance_id), None)
    return "" if found is None else _instance(instance_id, found, context)


def _disks(page: str, context: RequestContext) -> str:
    """Render what a change of a volume means for the instance of a page."""
    try:
        instance = compute.instance_for(context, page.partition("/")[2])
    except NotFoundError:
        return ""
    parts = {"row": {"instance": instance}, "disks": disks_for(context, instance)}
    return render_to_string("dashboard/instances/_disks.html", parts)


def _reach(page: str, context: RequestContext) -> str:
    """Render what a change of networking means for the instance of a page."""
    if not policy.allows(context, "os_compute_api:servers:show"):
        return ""
    try:
        instance = compute.instance_for(context, page.partition("/")[2])
    except NotFoundError:
        return ""
    return render_to_string("dashboard/instances/_reach.html", {"reach": reach_for(context, instance)})


def _instances(ids: Collection[uuid.UUID], narrowed: str, context: RequestContext) -> str:
    """Render the rows, oldest first, so that each new one is put before the others.

    Those that are deleted, or that the list's filter (``narrowed``, a query) does not match any more, are taken away.
    """
    instances = matching(context, ids, narrowed)
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
        return render_to_string("dashboard/instances/_deleted.html", gone) if name else ""
    return render_to_string("dashboard/instances/_live.html", detail_for(context, instance))
