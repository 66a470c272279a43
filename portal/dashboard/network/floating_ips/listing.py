"""The list of floating IPs, its rows, and the context of the page of one floating IP."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from django.utils.html import format_html

from portal.common import statuses
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, same_id, searched
from portal.dashboard.network import wording
from portal.dashboard.records.views import instance_names, may
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.network.models import FloatingIP, PortForwarding
from provisioning.network.selectors import routing


def page_parts(context: RequestContext, identity: str | uuid.UUID, _number: str = "") -> dict[str, Any]:
    """Return the context of the detail page. Raises FloatingIPNotFoundError."""
    floating = routing.floating_ip_for(context, identity)
    forwardings = list(floating.port_forwardings.select_related("internal_port").order_by("created_at", "id"))
    ids = [row.internal_port.device_id for row in forwardings]
    names = instance_names(context, [*ids, floating.fixed_port.device_id if floating.fixed_port else None])
    return {
        "row": row_of(context, floating, names),
        "forwardings": [
            {
                "forwarding": row,
                "label": label_of(row),
                "instance": names.get(row.internal_port.device_id or NOBODY, ""),
            }
            for row in forwardings
        ],
        "can_forward": floating.fixed_port_id is None and may(context, "create_floatingip_port_forwarding", floating),
        "can_edit_forwarding": may(context, "update_floatingip_port_forwarding", floating),
        "can_delete_forwarding": may(context, "delete_floatingip_port_forwarding", floating),
    }


def label_of(row: PortForwarding) -> str:
    """Format a forwarding: ``TCP 8080 to 10.0.0.5, port 80``."""
    outside = ports(row.external_port_first, row.external_port_last)
    inside = ports(row.internal_port_first, row.internal_port_last)
    return f"{row.protocol.upper()} {outside} to {row.internal_ip_address}, port {inside}"


def ports(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def row_of(context: RequestContext, floating: FloatingIP, names: dict[uuid.UUID, str]) -> dict[str, Any]:
    port = floating.fixed_port
    changes = may(context, "update_floatingip", floating)
    forwards = len(floating.port_forwardings.all())
    return {
        "floating": floating,
        "status": statuses.floating_ip_status(floating),
        "instance_id": port.device_id if port and port.device_id in names else None,
        "instance": names.get(port.device_id or NOBODY, "") if port else "",
        "forwards": forwards,
        "can_associate": changes and not forwards and port is None,
        "can_disassociate": changes and port is not None,
        "can_release": may(context, "delete_floatingip", floating),
    }


Row = dict[str, Any]


def _rows(context: RequestContext, floating_ips: Sequence[FloatingIP]) -> list[Row]:
    names = instance_names(context, [row.fixed_port.device_id for row in floating_ips if row.fixed_port])
    return [row_of(context, row, names) for row in floating_ips]


def _address(row: Row) -> object:
    return cells.name(row["floating"].address, cells.url("dashboard:floating_ip", row["floating"].id))


def _target(row: Row) -> object:
    floating = row["floating"]
    if not floating.fixed_address:
        return cells.count(row["forwards"], "port forwarding") if row["forwards"] else ""
    address = cells.mono(floating.fixed_address)
    if not row["instance"]:
        return address
    return format_html("{} {}", cells.link(row["instance"], "dashboard:instance", row["instance_id"]), address)


def _buttons(row: Row) -> object:
    floating = row["floating"]
    possible = (
        ("can_associate", "link-45deg", "Associate", "dashboard:floating_ip_associate"),
        ("can_disassociate", "x-lg", "Disassociate", "dashboard:floating_ip_disassociate"),
        ("can_release", "trash", "Release", "dashboard:floating_ip_release"),
    )
    return cells.join(
        "",
        (cells.button(sign, title, floating.address, to, floating.id) for may, sign, title, to in possible if row[may]),
    )


def _use(_: RequestContext, value: str) -> Q:
    used = Q(fixed_port__isnull=False) | Q(pk__in=PortForwarding.objects.values("floating_ip"))
    return used if value == "used" else ~used


def _networks(context: RequestContext) -> list[tuple[str, str]]:
    return [(str(each.id), str(each)) for each in routing.external_networks_for(context)]


FLOATING_IPS = RecordList[FloatingIP](
    key="floating_ips",
    model=FloatingIP,
    one="floating IP",
    noun="floating IPs",
    rule="get_floatingip",
    row_id="floating-ip",
    records=lambda context, _: routing.floating_ips_for(context),
    rows=_rows,
    default="age",
    columns=(
        Column("address", "Address", _address, sort="address", css="name mono", titled=False),
        columns.status("floating", "error"),
        Column("target", "Associated with", _target, sort="fixed_address"),
        Column("network", "Network", lambda row: cells.bdi(row["floating"].network), sort="network__name"),
        columns.attribute("description", "Description", "floating", css="muted"),
        columns.age("floating", optional=True),
        columns.ident("floating"),
    ),
    bulk=bulk_actions("floating_ips"),
    actions=_buttons,
    search=searched("address", "description", "fixed_address"),
    find="Find by address, description or ID",
    filters=(
        Filter("use", "Use", fixed(("used", "Associated"), ("free", "Not associated")), _use, quick=True),
        columns.status_filter(statuses.NETWORK_STATUS),
        Filter("network", "Network", _networks, same_id("network"), closed=False),
    ),
    kinds=wording.KINDS,
    named=lambda floating: floating.address,
    empty=Empty(
        "signpost",
        "No floating IPs yet",
        "A floating IP is an external address for an instance. Allocate one here and associate it with an instance, or "
        "do both on the instance's page.",
    ),
    create=HeadLink(
        "Allocate floating IP",
        "dashboard:floating_ip_allocate",
        rule="create_floatingip",
        asks=True,
        first="Allocate the first one",
    ),
)
