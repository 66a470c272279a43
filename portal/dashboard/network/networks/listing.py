"""The list of networks."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from django.db.models import Q, QuerySet

from portal.common import statuses
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import BY_NAME, Column, Empty, Filter, HeadLink, RecordList, fixed, searched
from portal.dashboard.network import wording
from portal.dashboard.network.networks import rows
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy
from provisioning.network import selectors
from provisioning.network.models import Network, Subnet

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
                *("rocket-takeoff", "Launch an instance", network, "dashboard:launch"),
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


def _rows(context: RequestContext, found: Sequence[Network]) -> list[Row]:
    can_launch = policy.allows(context, "os_compute_api:servers:create")
    return [{**rows.row_of(context, network), "can_launch": can_launch} for network in found]


def _detail(_: RequestContext, found: QuerySet[Network]) -> QuerySet[Network]:
    return found.prefetch_related("subnets")


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
            *("kind", "Kind", fixed(("own", "Own"), ("others", "Of others"), ("external", "External")), _kind),
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
