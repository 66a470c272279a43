"""Live updates of pages: partials rendered again for events."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.template.loader import render_to_string

from portal.common import statuses
from portal.dashboard.batches import listing as batches
from portal.dashboard.batches.listing import BATCHES
from portal.dashboard.cloud.drains import HostDrain
from portal.dashboard.cloud.hosts import HostDetail
from portal.dashboard.cloud.listing import HOSTS
from portal.dashboard.cloud.migrations import MIGRATIONS
from portal.dashboard.cloud.pools import POOLS, PoolDetail
from portal.dashboard.cloud.views import CloudPage
from portal.dashboard.images.catalogue import CATALOGUE, changed_cards
from portal.dashboard.images.listing import IMAGES
from portal.dashboard.instances.detail.tabs import render_tab, tab_named
from portal.dashboard.instances.lists.changes import changed_instances
from portal.dashboard.instances.lists.listing import INSTANCES
from portal.dashboard.lists import live as lists
from portal.dashboard.lists.declaration import RecordList
from portal.dashboard.network import live as network
from portal.dashboard.network.floating_ips.listing import FLOATING_IPS
from portal.dashboard.network.networks.listing import NETWORKS
from portal.dashboard.network.routers.listing import ROUTERS
from portal.dashboard.network.security_groups.listing import SECURITY_GROUPS
from portal.dashboard.overview.views import parts_for
from portal.dashboard.topology.views import picture_for
from portal.dashboard.volumes import page_parts as volumes
from portal.dashboard.volumes.failures import FAILURES
from portal.dashboard.volumes.listing import BACKUPS, SNAPSHOTS, VOLUMES
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors as compute
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy

INSTANCE, IMAGE, NETWORK, VOLUME, HOST = "instance", "image", "network", "volume", "host"
"""Kinds of events that change pages."""
BATCH = "batch"
"""The kind of events about the user's own actions on many resources."""
Events = Sequence[LoggedEvent]


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page that follows events of these kinds.

    ``draw`` gets the rest of the page name (an id, a filter), the events and the context.
    """

    kinds: frozenset[str]
    draw: Callable[[str, Events, RequestContext], str]


def render(page: str, events: Events, context: RequestContext) -> str:
    """Return the elements of ``page`` that these events change, as HTML with ids; empty without changes.

    ``page``: a name in ``PAGES``, with its argument after ``/`` or ``?``. State is read now, so that several events are
    rendered once.
    """
    name, _, rest = page.replace("?", "/", 1).partition("/")
    live = PAGES.get(name)
    if live is None or not any(event.kind in live.kinds for event in events):
        return ""
    try:
        return live.draw(rest, events, context)
    except (NotFoundError, ObjectDoesNotExist):  # deleted while it was drawn: now it is missing from the beginning
        return live.draw(rest, events, context)


def _overview(_: str, events: Events, context: RequestContext) -> str:
    if not changed_instances(events) and not any(event.kind in {VOLUME, NETWORK} for event in events):
        return ""
    parts = parts_for(context)
    return "".join(render_to_string(f"dashboard/overview/_{name}.html", parts) for name in ("quota", "recent"))


def _topology(opened: str, _: Events, context: RequestContext) -> str:
    if not policy.allows(context, "get_network"):
        return ""
    can_launch = policy.allows(context, "os_compute_api:servers:create")
    return render_to_string(
        "dashboard/topology/_picture.html", {**picture_for(context, opened), "can_launch": can_launch}
    )


def _one_instance(rest: str, events: Events, context: RequestContext) -> str:
    """Render the tab of an instance with the page's head if the instance's own events changed it; otherwise only the
    tab, if it follows these events.
    """
    instance_id, _, name_of_tab = rest.partition("/")
    tab, name = tab_named(name_of_tab), _name_of(instance_id, events)
    if tab is None or not policy.allows(context, "os_compute_api:servers:show"):
        return ""
    if name is None and not any(event.kind in tab.follows for event in events):
        return ""
    try:
        instance = compute.instance_for(context, instance_id)
    except NotFoundError:
        gone = {"name": name, "gone": statuses.INSTANCE_STATUS["DELETED"]}
        return render_to_string("dashboard/instances/_deleted.html", gone) if name else ""
    return render_tab(tab, context, instance, head=name is not None)


def _name_of(instance_id: str, events: Events) -> str | None:
    """Return the name of an instance that events change, or None if they do not."""
    return next((name for key, name in changed_instances(events).items() if str(key) == instance_id), None)


def _of_list(the_list: RecordList[Any]) -> LivePage:
    return LivePage(the_list.kinds, lambda rest, events, context: lists.render(the_list, rest, events, context))


def _of_networking(name: str) -> LivePage:
    return LivePage(
        frozenset({INSTANCE, NETWORK}), lambda rest, _, context: network.render(f"{name}/{rest}".rstrip("/"), context)
    )


def _of_volumes(name: str) -> LivePage:
    return LivePage(
        frozenset({INSTANCE, VOLUME}), lambda rest, _, context: volumes.render(f"{name}/{rest}".rstrip("/"), context)
    )


LISTS: tuple[RecordList[Any], ...] = (
    INSTANCES,
    NETWORKS,
    ROUTERS,
    FLOATING_IPS,
    SECURITY_GROUPS,
    VOLUMES,
    SNAPSHOTS,
    BACKUPS,
    FAILURES,
    IMAGES,
    HOSTS,
    MIGRATIONS,
    POOLS,
    BATCHES,
)
"""The lists that are live."""
WATCHED = (CloudPage, HostDetail, HostDrain, PoolDetail)
"""The operators' pages that are live."""
PAGES: dict[str, LivePage] = {
    "overview": LivePage(frozenset({INSTANCE, NETWORK, VOLUME, HOST}), _overview),
    "instance": LivePage(frozenset({INSTANCE, NETWORK, VOLUME, HOST}), _one_instance),
    "catalogue": LivePage(frozenset({CATALOGUE, IMAGE}), changed_cards),
    "topology": LivePage(frozenset({INSTANCE, NETWORK, HOST}), _topology),
    "tray": LivePage(frozenset({BATCH}), lambda _, __, context: batches.render_tray(context)),
    "batch": LivePage(frozenset({BATCH}), lambda rest, _, context: batches.render_batch(rest, context)),
    **{each.key: _of_list(each) for each in LISTS},
    **{name: _of_networking(name) for name in network.RECORDS},
    **{name: _of_volumes(name) for name in ("volume",)},
    **{each.live_kind: LivePage(each.kinds, each.draw) for each in WATCHED},
}
"""First part of a live page's name → its events; ``tests/dashboard/test_live.py`` fails for pages missing here."""
