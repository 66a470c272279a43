"""Floating IPs (Networking API v2.0 reference, "Floating IPs")."""

from typing import Any

from portal.api.frame.resource import Operation, Values
from portal.api.network.dialect.attributes import Attribute, standard
from portal.api.network.dialect.kinds import ADDRESS, ID, TEXT, Free, Many, OrNone
from portal.api.network.dialect.names import DnsDomain, DnsName
from portal.api.network.dialect.resource import Resource
from portal.api.network.dialect.views import ALL_PROJECTS
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.errors import BadRequestError
from provisioning.network.models import FloatingIP, PortForwarding
from provisioning.network.selectors import routing


def _create(context: RequestContext, values: Values) -> FloatingIP:
    everybody = values["project_id"] != context.project_id
    port, subnet = values.get("port_id"), values.get("subnet_id")
    columns = {name: values[name] for name in ("description", "dns_name", "dns_domain") if name in values}
    outside = values["floating_network_id"]
    try:
        network = selectors.network_for(context, outside, all_projects=policy.allows(context, ALL_PROJECTS))
    except NotFoundError as error:
        msg = f"Bad floatingip request: Network {outside} is not a valid external network."
        raise BadRequestError(msg, field="floating_network_id") from error
    return services.create_floating_ip(
        values["project_id"],
        network,
        subnet=selectors.subnet_for(context, subnet, all_projects=True) if subnet else None,
        address=values.get("floating_ip_address"),
        port=selectors.port_for(context, port, all_projects=everybody) if port else None,
        fixed_address=values.get("fixed_ip_address"),
        **columns,
    )


def _update(context: RequestContext, row: FloatingIP, values: Values, revision: int | None) -> FloatingIP:
    changes: dict[str, object] = {}
    if "description" in values:
        changes["description"] = values["description"]
    if "port_id" in values or "fixed_ip_address" in values:
        port = values.get("port_id", row.fixed_port_id if "port_id" not in values else None)
        changes["port"] = selectors.port_for(context, port, all_projects=True) if port else None
    return services.update_floating_ip(row, changes, revision, fixed_address=values.get("fixed_ip_address"))


def _delete(context: RequestContext, row: FloatingIP, revision: int | None) -> None:
    services.delete_floating_ip(row, revision)


def _details(row: FloatingIP) -> dict[str, Any] | None:
    port = row.fixed_port
    if port is None:
        return None
    return {
        "name": port.name,
        "network_id": str(port.network_id),
        "mac_address": port.mac_address,
        "admin_state_up": port.admin_state_up,
        "status": port.shown_status,
        "device_id": str(port.device_id) if port.device_id else port.device_text,
        "device_owner": port.device_owner,
    }


def _forwardings(row: FloatingIP) -> list[dict[str, Any]]:
    return [
        {
            "id": str(each.id),
            "protocol": each.protocol,
            "internal_port_id": str(each.internal_port_id),
            "internal_ip_address": each.internal_ip_address,
            **{f"{side}_port": port_of(each, side=side) for side in ("external", "internal")},
        }
        for each in sorted(row.port_forwardings.all(), key=lambda each: (each.created_at, each.id))
    ]


def port_of(row: PortForwarding, *, side: str) -> int | None:
    """Return a forwarding's single port on a side, ``external`` or ``internal``; None for a range."""
    first, last = _ends(row, side)
    return first if first == last else None


def range_of(row: PortForwarding, *, side: str) -> str:
    """Return a forwarding's ports on a side as a range; a single port is a range of one."""
    first, last = _ends(row, side)
    return f"{first}:{last}"


def _ends(row: PortForwarding, side: str) -> tuple[int, int]:
    return getattr(row, f"{side}_port_first"), getattr(row, f"{side}_port_last")


FLOATING_IP = Resource(
    name="floatingip",
    quota="floatingips",
    list=Operation(routing.floating_ips_for),
    show=Operation(routing.floating_ip_for),
    create=Operation(_create),
    update=Operation(_update),
    delete=Operation(_delete),
    attributes=(
        *standard(named=False),
        Attribute(name="floating_network_id", kind=ID, column="network_id", post=True, required=True, sort=True),
        Attribute(
            name="floating_ip_address", kind=OrNone(ADDRESS), column="address", post=True, default=None,
            guards=("create",), sort=True,
        ),
        Attribute(name="subnet_id", kind=OrNone(ID), post=True, shown=False, filter=False),
        Attribute(name="port_id", kind=OrNone(ID, empty=True), column="fixed_port_id", post=True, put=True),
        Attribute(
            name="fixed_ip_address", kind=OrNone(ADDRESS, empty=True), column="fixed_address", post=True, put=True,
            sort=True,
        ),
        Attribute(name="router_id", kind=OrNone(ID)),
        Attribute(name="status", kind=TEXT, sort=True),
        Attribute(name="dns_name", kind=DnsName(), post=True),
        Attribute(name="dns_domain", kind=DnsDomain(), post=True),
        Attribute(name="port_details", kind=OrNone(Free()), filter=False, show=_details),
        Attribute(name="port_forwardings", kind=Many(Free()), filter=False, show=_forwardings),
    ),
)  # fmt: skip
