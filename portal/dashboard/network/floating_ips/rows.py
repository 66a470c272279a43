"""Rows of the list of floating IPs and context of their detail page."""

import uuid
from typing import Any

from portal.common import statuses
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
