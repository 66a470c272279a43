"""The list of networks, its rows, and the context of the page of one network."""

import uuid
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from django.db.models import Q, QuerySet

from portal.common import statuses
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import BY_NAME, Column, Empty, Filter, HeadLink, RecordList, fixed, searched
from portal.dashboard.network import wording
from portal.dashboard.records.paging import page_of
from portal.dashboard.records.views import instance_names, may
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy
from provisioning.network import selectors
from provisioning.network.models import Network, Port, Subnet
from provisioning.network.records.owners import CLOUD, COMPUTE, ROUTER_GATEWAY, ROUTER_INTERFACE
from provisioning.network.selectors import routing, uses

MODES = {"slaac": "SLAAC", "dhcpv6-stateless": "SLAAC, options by DHCPv6", "dhcpv6-stateful": "DHCPv6"}


def page_parts(context: RequestContext, identity: str | uuid.UUID, number: str = "") -> dict[str, Any]:
    """Return the context of the detail page, with page ``number`` of its ports. Raises NetworkNotFoundError."""
    network = selectors.network_for(context, identity)
    subnets = list(network.subnets.order_by("created_at", "id"))
    used = uses.addresses_used(subnet.id for subnet in subnets)
    seen = policy.allows(context, "get_port")
    pages = page_of(uses.ports_on(context, network), number) if seen else None
    return {
        **row_of(context, network),
        "segment": _segment(network) if policy.allows(context, "get_network:provider:network_type") else "",
        "subnets": [_subnet(context, network, subnet, used.get(subnet.id, 0)) for subnet in subnets],
        "ports": _ports(context, network, list(pages or ())),
        "sees_ports": seen,
        "pages": pages,
        "can_add_subnet": policy.allows(context, "create_subnet", _on(context, network)),
        "can_add_port": policy.allows(context, "create_port") and not network.external,
        "can_launch": policy.allows(context, "os_compute_api:servers:create"),
    }


def device_words(context: RequestContext, ports: Iterable[Port]) -> dict[uuid.UUID, tuple[str, str]]:
    """Return port → description of its device, and the URL name of the device's page, if any."""
    listed = list(ports)
    names = instance_names(context, [port.device_id for port in listed if port.device_owner.startswith(COMPUTE)])
    of_routers = {
        port.device_id for port in listed if port.device_owner in {ROUTER_INTERFACE, ROUTER_GATEWAY} and port.device_id
    }
    routers = {row.id: str(row) for row in routing.routers_for(context).filter(id__in=of_routers)} if of_routers else {}
    result = {}
    for port in listed:
        key = port.device_id or NOBODY
        if key in names:
            result[port.id] = (names[key], "dashboard:instance")
        elif key in routers:
            result[port.id] = (routers[key], "dashboard:router")
        else:
            result[port.id] = (wording.OWNERS.get(port.device_owner, port.device_owner or port.device_text), "")
    return result


def row_of(context: RequestContext, network: Network) -> dict[str, Any]:
    return {
        "network": network,
        "status": statuses.network_status(network.status, up=network.admin_state_up),
        "mine": network.project_id == context.project_id,
        "can_edit": may(context, "update_network", network),
        "can_delete": may(context, "delete_network", network),
        "usable": not network.external,
    }


def _segment(network: Network) -> str:
    words = {"vxlan": "VXLAN, VNI", "vlan": "VLAN", "flat": "flat"}[network.network_type]
    number = "" if network.segmentation_id is None else f" {network.segmentation_id}"
    return f"{words}{number}" + (f" on {network.physical_network}" if network.physical_network else "")


def _subnet(context: RequestContext, network: Network, subnet: Subnet, used: int) -> dict[str, Any]:
    subnet.network = network
    return {
        "subnet": subnet,
        "used": used,
        "mode": MODES.get(subnet.ipv6_address_mode or subnet.ipv6_ra_mode, ""),
        "can_edit": may(context, "update_subnet", subnet),
        "can_delete": may(context, "delete_subnet", subnet),
    }


def _ports(context: RequestContext, network: Network, ports: list[Port]) -> list[dict[str, Any]]:
    devices = device_words(context, ports)
    result = []
    for port in ports:
        port.network = network
        mine = port.project_id == context.project_id
        own = mine and not port.device_owner.startswith(CLOUD)
        result.append(
            {
                "port": port,
                "status": statuses.network_status(port.status, up=port.admin_state_up),
                "device": devices[port.id][0],
                "device_page": devices[port.id][1],
                "open": own and not port.port_security_enabled,
                "can_edit": own and may(context, "update_port", port),
                "can_delete": own and port.device_id is None and may(context, "delete_port", port),
            }
        )
    return result


def _on(context: RequestContext, network: Network) -> dict[str, object]:
    """Return the policy target of a new resource on a network."""
    owner = network.project_id
    return {"project_id": context.project_id, "network:project_id": owner, "network:tenant_id": owner}


Row = dict[str, Any]


def _name(row: Row) -> object:
    network, mine = row["network"], row["mine"]
    shared = ""
    if network.shared_with_caller:
        shared = "shared"
    elif mine and network.shared_with_others:
        shared = "shared with others"
    elif not mine and not network.external:
        shared = "of another project"
    beside = ("external" if network.external else "", shared)
    return cells.record(network, "dashboard:network", beside=beside, below=network.description)


def _subnets(row: Row) -> object:
    return cells.join("<br>", (subnet.cidr for subnet in row["network"].subnets.all()))


def _kind(context: RequestContext, value: str) -> Q:
    own = Q(project_id=context.project_id or NOBODY)
    return {"own": own, "external": Q(external=True), "others": ~own}[value]


def _search(context: RequestContext, text: str) -> Q:
    ranges = Subnet.objects.filter(cidr__icontains=text)
    return _BY_NAME(context, text) | Q(pk__in=ranges.values("network"))


_BY_NAME = searched("name", "description")


def _buttons(row: Row) -> object:
    network = row["network"]
    result = []
    if row["can_launch"] and row["usable"] and network.subnets.all():
        result.append(
            cells.button(
                "rocket-takeoff",
                "Launch an instance",
                network,
                "dashboard:launch",
                query=f"network={network.id.hex}",
                label="Launch an instance on {}",
                asks=False,
            )
        )
    if row["can_edit"]:
        result.append(cells.button("pencil", "Edit", network, "dashboard:network_edit", network.id))
    if row["can_delete"]:
        result.append(cells.button("trash", "Delete", network, "dashboard:network_delete", network.id))
    return cells.join("", result)


def _rows(context: RequestContext, networks: Sequence[Network]) -> list[Row]:
    can_launch = policy.allows(context, "os_compute_api:servers:create")
    return [{**row_of(context, network), "can_launch": can_launch} for network in networks]


def _detail(_: RequestContext, networks: QuerySet[Network]) -> QuerySet[Network]:
    return networks.prefetch_related("subnets")


OWN = HeadLink(
    "Network with external access", "dashboard:network_own", "magic", rule="get_auto_allocated_topology", asks=True
)
NETWORKS = RecordList[Network](
    key="networks",
    model=Network,
    one="network",
    noun="networks",
    rule="get_network",
    row_id="network",
    records=lambda context, _: selectors.networks_for(context),
    detail=_detail,
    rows=_rows,
    default="name",
    order=lambda context: [selectors.own_first(context), BY_NAME],
    columns=(
        columns.name(_name, itemgetter("network")),
        columns.status("network", "error"),
        Column("subnets", "Subnets", _subnets, css="mono small"),
        columns.attribute("mtu", "MTU", "network", css="num"),
        columns.attribute("network_type", "Type", "network", optional=True),
        columns.age("network", optional=True),
        columns.ident("network"),
    ),
    bulk=bulk_actions("networks"),
    actions=_buttons,
    search=_search,
    find="Find by name, range or ID",
    filters=(
        Filter(
            "kind",
            "Kind",
            fixed(("own", "Own"), ("others", "Of others"), ("external", "External")),
            _kind,
            quick=True,
        ),
        columns.status_filter(statuses.NETWORK_STATUS),
    ),
    kinds=wording.KINDS,
    empty=Empty(
        "hdd-network",
        "No networks yet",
        "A network connects your instances. Create one with a range of private addresses, and connect it to an "
        "external network with a router.",
    ),
    create=HeadLink("New network", "dashboard:network_create", rule="create_network", first="Create the first network"),
    beside=(OWN,),
)
