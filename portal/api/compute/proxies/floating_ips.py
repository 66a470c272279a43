"""Floating IPs in the Compute API up to 2.35 (Compute API reference, "Floating IPs")."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.proxies.base import ProxyView
from portal.api.compute.schemas import Schema
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import NOBODY
from provisioning.identity import policy
from provisioning.network import services
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FloatingIP, Network
from provisioning.network.records.owners import COMPUTE
from provisioning.network.selectors import routing

CREATION: Schema = {
    "type": "object",
    "properties": {"pool": {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": True,
}


def shape(floating: FloatingIP) -> dict[str, Any]:
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


class FloatingIpsView(ProxyView):
    """``GET`` and ``POST /os-floating-ips``."""

    rules = {"GET": "os_compute_api:os-floating-ips:list", "POST": "os_compute_api:os-floating-ips:create"}
    schemas: ClassVar = {"POST": CREATION}

    def get(self, request: Request) -> Response:
        """List the project's floating IPs."""
        policy.enforce(self.context, "get_floatingip")
        found = routing.floating_ips_for(self.context).order_by("created_at", "id")
        return Response({"floating_ips": [shape(floating) for floating in found]})

    def post(self, request: Request) -> Response:
        """Allocate a floating IP from the pool with this name or id; by default from the default external network."""
        policy.enforce(self.context, "create_floatingip", {"project_id": self.context.project_id})
        pool = self._pool(self.checked_body().get("pool") if request.data else None)
        try:
            floating = services.create_floating_ip(self.context.project_id or NOBODY, pool)
        except OutOfAddressesError as error:
            raise NotFoundError(f"No more floating IPs in pool {pool.name}.") from error
        return Response({"floating_ip": shape(floating)})

    def _pool(self, wanted: str | None) -> Network:
        pools = routing.external_networks_for(self.context)
        found = [each for each in pools if wanted is None or wanted in {each.name, str(each.id)}]
        if not found:
            raise NotFoundError("Floating IP pool not found.", field="pool")
        return found[0]


class FloatingIpView(ProxyView):
    """``GET`` and ``DELETE /os-floating-ips/{id}``."""

    rules = {"GET": "os_compute_api:os-floating-ips:show", "DELETE": "os_compute_api:os-floating-ips:delete"}

    def get(self, request: Request, floating_ip_id: str) -> Response:
        policy.enforce(self.context, "get_floatingip")
        return Response({"floating_ip": shape(self._found(floating_ip_id))})

    def delete(self, request: Request, floating_ip_id: str) -> Response:
        """Release a floating IP, even if it is associated."""
        floating = self._found(floating_ip_id)
        policy.enforce(self.context, "delete_floatingip", {"project_id": floating.project_id})
        services.delete_floating_ip(floating)
        return Response(status=202)

    def _found(self, identity: str) -> FloatingIP:
        try:
            return routing.floating_ip_for(self.context, identity, all_projects=True)
        except NotFoundError as error:
            raise NotFoundError(f"Floating IP not found for ID {identity[:64]}") from error


class FloatingIpPoolsView(ProxyView):
    """``GET /os-floating-ip-pools``."""

    rules = {"GET": "os_compute_api:os-floating-ip-pools"}

    def get(self, request: Request) -> Response:
        """List the external networks by name."""
        policy.enforce(self.context, "get_network")
        pools = routing.external_networks_for(self.context)
        return Response({"floating_ip_pools": [{"name": each.name or str(each.id)} for each in pools]})
