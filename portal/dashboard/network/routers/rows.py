"""Rows of the list of routers and context of their detail page."""

import uuid
from typing import Any

from portal.common import statuses
from portal.dashboard.records.views import may
from provisioning.common.context import RequestContext
from provisioning.network.models import Router
from provisioning.network.selectors import routing


def page_parts(context: RequestContext, identity: str | uuid.UUID, _number: str = "") -> dict[str, Any]:
    """Return the context of the detail page. Raises RouterNotFoundError."""
    router = routing.router_for(context, identity)
    return {
        **row_of(context, router),
        "legs": [
            {"port": leg, "subnets": [row.subnet for row in leg.fixed_ips.all()]} for leg in routing.legs_of(router)
        ],
        "can_add_interface": may(context, "add_router_interface", router),
        "can_remove_interface": may(context, "remove_router_interface", router),
        "can_add_route": may(context, "add_extraroutes", router),
        "can_remove_route": may(context, "remove_extraroutes", router),
    }


def row_of(context: RequestContext, router: Router) -> dict[str, Any]:
    gateway = router.gateway_port
    return {
        "router": router,
        "status": statuses.network_status(router.status, up=router.admin_state_up),
        "gateway": gateway,
        "addresses": [row.address for row in gateway.fixed_ips.all()] if gateway else [],
        "can_edit": may(context, "update_router", router),
        "can_delete": may(context, "delete_router", router),
    }
