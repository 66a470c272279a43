"""The list of routers, its rows, and the context of the page of one router."""

import uuid
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from django.db.models import Q, QuerySet

from portal.common import statuses
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, counted, same_id, searched
from portal.dashboard.network import wording
from portal.dashboard.records.views import may
from provisioning.common.context import RequestContext
from provisioning.network.models import FixedIP, Port, Router
from provisioning.network.records.owners import ROUTER_INTERFACE
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


Row = dict[str, Any]


def _rows(context: RequestContext, routers: Sequence[Router]) -> list[Row]:
    legs = routing.leg_counts(router.id for router in routers)
    return [{**row_of(context, router), "legs": legs.get(router.id, 0)} for router in routers]


def _name(row: Row) -> object:
    return cells.record(row["router"], "dashboard:router", below=row["router"].description)


def _gateway(row: Row) -> object:
    return cells.bdi(row["gateway"].network) if row["gateway"] else ""


def _buttons(row: Row) -> object:
    router, found = row["router"], []
    if row["can_edit"]:
        found.append(cells.button("pencil", "Edit", router, "dashboard:router_edit", router.id))
    if row["can_delete"]:
        found.append(cells.button("trash", "Delete", router, "dashboard:router_delete", router.id))
    return cells.join("", found)


def _search(context: RequestContext, text: str) -> Q:
    addresses = FixedIP.objects.filter(address__startswith=text)
    return _BY_NAME(context, text) | Q(gateway_port__in=addresses.values("port"))


_BY_NAME = searched("name", "description")


def _externals(context: RequestContext) -> list[tuple[str, str]]:
    return [(str(each.id), str(each)) for each in routing.external_networks_for(context)]


def _detail(_: RequestContext, routers: QuerySet[Router]) -> QuerySet[Router]:
    return routers.select_related("gateway_port__network").prefetch_related("gateway_port__fixed_ips")


LEGS = counted(Port.objects.filter(device_owner=ROUTER_INTERFACE), "device_id")
ROUTERS = RecordList[Router](
    key="routers",
    model=Router,
    one="router",
    noun="routers",
    rule="get_router",
    row_id="router",
    records=lambda context, _: routing.routers_for(context),
    detail=_detail,
    rows=_rows,
    default="name",
    columns=(
        columns.name(_name, itemgetter("router")),
        columns.status("router", "error"),
        Column("gateway", "External network", _gateway, sort="gateway_port__network__name"),
        Column("address", "External address", lambda row: ", ".join(row["addresses"]), css="mono small"),
        Column("networks", "Networks", itemgetter("legs"), sort=LEGS, css="num", largest_first=True),
        columns.age("router", optional=True),
        columns.ident("router"),
    ),
    bulk=bulk_actions("routers"),
    actions=_buttons,
    search=_search,
    find="Find by name, address or ID",
    filters=(
        columns.status_filter(statuses.NETWORK_STATUS),
        Filter("external", "External network", _externals, same_id("gateway_port__network"), closed=False),
    ),
    kinds=wording.KINDS,
    empty=Empty(
        "router",
        "No routers yet",
        "A router connects your networks to an external network. Instances get external access, and floating IPs reach "
        "the instances.",
    ),
    create=HeadLink("New router", "dashboard:router_create", rule="create_router", first="Create the first router"),
)
