"""The resources selected in a list, as its form sends them to the page of a batch action."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from portal.dashboard.images.listing import IMAGES
from portal.dashboard.instances.lists.listing import INSTANCES
from portal.dashboard.key_pairs import KEY_PAIRS
from portal.dashboard.lists import selection
from portal.dashboard.lists.declaration import RecordList
from portal.dashboard.network.floating_ips.listing import FLOATING_IPS
from portal.dashboard.network.networks.listing import NETWORKS
from portal.dashboard.network.routers.listing import ROUTERS
from portal.dashboard.network.security_groups.listing import SECURITY_GROUPS
from portal.dashboard.volumes.listing import BACKUPS, SNAPSHOTS, VOLUMES
from provisioning.batches.kinds.declaration import Kind
from provisioning.batches.services import MOST_ITEMS

LISTS: Mapping[str, RecordList[Any]] = {
    each.key: each
    for each in (
        *(INSTANCES, VOLUMES, SNAPSHOTS, BACKUPS, NETWORKS, ROUTERS, FLOATING_IPS, SECURITY_GROUPS),
        *(IMAGES, KEY_PAIRS),
    )
}
"""Kind of resources → its list."""


def selected(request: HttpRequest, kind: Kind) -> list[str]:
    """Return the ids of the selected resources, at most ``MOST_ITEMS``."""
    if kind.name in LISTS:
        return [str(each) for each in selection.resolve(request, LISTS[kind.name], MOST_ITEMS)]
    data = request.POST if request.method == "POST" else request.GET
    return data.getlist(selection.ID)[:MOST_ITEMS]
