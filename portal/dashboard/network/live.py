"""Live updates of networking pages: their parts rendered again."""

from collections.abc import Callable, Mapping
from typing import Any

from django.template.loader import render_to_string

from portal.dashboard.network.floating_ips import listing as floating_ips
from portal.dashboard.network.networks import listing as networks
from portal.dashboard.network.routers import listing as routers
from portal.dashboard.network.security_groups import listing as groups
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.identity import policy

Parts = Callable[..., dict[str, Any]]
RECORDS: Mapping[str, tuple[str, Parts]] = {
    "network": ("get_network", networks.page_parts),
    "router": ("get_router", routers.page_parts),
    "floating_ip": ("get_floatingip", floating_ips.page_parts),
    "security_group": ("get_security_group", groups.page_parts),
}
"""Detail page → its policy rule and the function for its context; the id and optionally a page number follow."""


def render(page: str, context: RequestContext) -> str:
    """Return the page's parts as HTML with ids; empty if the caller may not see them.

    NotFoundError is rendered as a notice.
    """
    kind, _, rest = page.partition("/")
    rule, parts = RECORDS[kind]
    if not policy.allows(context, rule):
        return ""
    identity, _, number = rest.partition("/")
    try:
        return render_to_string(f"dashboard/network/{kind}s/_live.html", parts(context, identity, number))
    except NotFoundError:
        return render_to_string("dashboard/records/_gone.html")
