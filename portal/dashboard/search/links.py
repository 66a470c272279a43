"""The page on which a resource that was found is shown."""

from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse

from portal.dashboard.frame.things import PAGES
from provisioning.common.context import RequestContext
from provisioning.search.find import Hit

LISTS = {
    "image": "images",
    "volume_snapshot": "volume_snapshots",
    "volume_backup": "volume_backups",
    "key_pair": "key_pairs",
    "server_group": "server_groups",
    "flavor": "flavors",
}
"""Kind without a page → the URL name of its list."""
RECORDS = {
    "network": "network_network",
    "subnet": "network_subnet",
    "router": "network_router",
    "floating_ip": "network_floatingip",
    "security_group": "network_securitygroup",
    "port": "network_port",
    "volume_snapshot": "volumes_snapshot",
    "volume_backup": "volumes_backup",
    "server_group": "compute_servergroup",
}
"""Kind whose pages exist only in its project → its operators' page."""


def address_of(context: RequestContext, hit: Hit) -> str:
    """Return the address of the resource's page, of the page that shows it, or of its list."""
    foreign = context.is_admin and hit.project_id not in {None, context.project_id}
    if foreign and hit.kind in RECORDS:
        try:
            return reverse(f"admin:{RECORDS[hit.kind]}_change", args=[hit.id])
        except NoReverseMatch:  # the process serves no operators' pages
            return reverse("dashboard:overview")
    if hit.kind in PAGES:
        return reverse(f"dashboard:{PAGES[hit.kind]}", args=[hit.id])
    if hit.parent is not None:
        return reverse("dashboard:network", args=[hit.parent])
    return f"{reverse(f'dashboard:{LISTS[hit.kind]}')}?{urlencode({'q': hit.name})}"
