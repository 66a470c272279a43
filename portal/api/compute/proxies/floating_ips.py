"""Floating IPs in the Compute API up to 2.35 (Compute API reference, "Floating IPs")."""

from typing import Any

from portal.api.compute.dialect.schemas import Schema
from portal.api.compute.proxies.base import ProxyView
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy
from provisioning.network import services
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FloatingIP
from provisioning.network.records.owners import COMPUTE
from provisioning.network.selectors import routing

CREATION: Schema = {
    "type": "object",
    "properties": {"pool": {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": True,
}


def shape(view: ProxyView, floating: FloatingIP) -> dict[str, Any]:
    """One floating IP; ``pool`` is the name of its network."""
    port = floating.fixed_port
    server = port.device_id if port is not None and port.device_owner.startswith(COMPUTE) else None
    return {
        "id": str(floating.id),
        "ip": floating.address,
        "pool": floating.network.name or str(floating.network_id),
        "fixed_ip": floating.fixed_address,
        "instance_id": str(server) if server else None,
    }


def _create(context: RequestContext, body: dict[str, Any]) -> FloatingIP:
    requested = body.get("pool")
    pools = routing.external_networks_for(context)
    found = [each for each in pools if requested is None or requested in {each.name, str(each.id)}]
    if not found:
        raise NotFoundError("Floating IP pool not found.", field="pool")
    try:
        return services.create_floating_ip(context.project_id or NOBODY, found[0])
    except OutOfAddressesError as error:
        raise NotFoundError(f"No more floating IPs in pool {found[0].name}.") from error  # quoted: Nova


def _found(context: RequestContext, identity: str) -> FloatingIP:
    try:
        return routing.floating_ip_for(context, identity, all_projects=True)
    except NotFoundError as error:
        raise NotFoundError(f"Floating IP not found for ID {identity[:64]}") from error


def _delete(context: RequestContext, identity: str) -> None:
    floating = _found(context, identity)
    policy.enforce(context, "delete_floatingip", {"project_id": floating.project_id})
    services.delete_floating_ip(floating)


PARTS = parts(
    ProxyView,
    "",
    {
        "GET os-floating-ips": Call(
            lambda context: routing.floating_ips_for(context).order_by("created_at", "id"),
            "os_compute_api:os-floating-ips:list",
            "List the project's floating IPs.",
            also=("get_floatingip",),
            name="floating_ips",
            shape=lambda view, found: [shape(view, each) for each in found],
        ),
        "POST os-floating-ips": Call(
            _create,
            "os_compute_api:os-floating-ips:create",
            "Allocate a floating IP from the pool with this name or id; by default from the default external network.",
            also=("create_floatingip",),
            name="floating_ip",
            shape=shape,
            body=CREATION,
        ),
        "GET os-floating-ips/{floating_ip_id}": Call(
            _found, "os_compute_api:os-floating-ips:show", also=("get_floatingip",), name="floating_ip", shape=shape
        ),
        "DELETE os-floating-ips/{floating_ip_id}": Call(
            _delete,
            "os_compute_api:os-floating-ips:delete",
            "Release a floating IP, even if it is associated.",
            status=202,
        ),
        "GET os-floating-ip-pools": Call(
            routing.external_networks_for,
            "os_compute_api:os-floating-ip-pools",
            "List the external networks by name.",
            also=("get_network",),
            name="floating_ip_pools",
            shape=lambda view, found: [{"name": each.name or str(each.id)} for each in found],
        ),
    },
)
