"""Networks, floating addresses and security groups as the Compute API showed them up to 2.35."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.proxies import schemas as proxy_schemas
from portal.api.compute.proxies.refusals import GONE, ProxyView
from portal.api.compute.schemas import last
from portal.api.compute.servers.security_group_shapes import REMOTE, security_group
from provisioning.common.errors import GoneError, NotFoundError, NotOfferedError
from provisioning.identity import policy
from provisioning.network import selectors
from provisioning.network.models import Network

_FIELDS = (
    "cidr", "netmask", "gateway", "broadcast", "dns1", "dns2", "cidr_v6", "gateway_v6", "netmask_v6",
)  # fmt: skip
_OPERATORS_FIELDS = (
    "created_at", "updated_at", "deleted_at", "deleted", "injected", "bridge", "vlan", "vpn_public_address",
    "vpn_public_port", "vpn_private_address", "dhcp_start", "project_id", "host", "bridge_interface", "multi_host",
    "priority", "rxtx_base", "mtu", "dhcp_server", "enable_dhcp", "share_address",
)  # fmt: skip
"""What nova-network knew of a network; null since it is gone."""
_CHANGED_ELSEWHERE = "Security groups are not changed by the Compute API: ask the Network API."
LARGEST = 1000
"""Groups of one answer."""


class NetworkProxy(ProxyView):
    """Networks, which nobody makes or deletes here any more."""

    rules = {"GET": "compute:networks:list", "POST": "compute:removed"}
    answered_later = frozenset({"POST", "DELETE"})

    def get(self, request: Request) -> Response:
        """The networks that the project may use."""
        policy.enforce(self.context, "network:networks:list")
        found = selectors.networks_for(self.context, all_projects=True).order_by("name", "id")
        return Response({"networks": [self.shape(network) for network in found]})

    def post(self, request: Request, **named: str) -> Response:
        """Say that it is gone."""
        raise GoneError(GONE)

    def shape(self, network: Network) -> dict[str, Any]:
        """One network: two of nova-network's thirty fields have a value."""
        more = _OPERATORS_FIELDS if self.context.is_admin else ()
        return {"id": str(network.id), "label": network.name} | dict.fromkeys((*_FIELDS, *more))


class NetworksView(NetworkProxy):
    """``/os-networks``."""


class NetworkItemProxy(NetworkProxy):
    """One network."""

    http_method_names = ["get", "head", "delete"]
    rules = {"GET": "compute:networks:show", "POST": "compute:removed", "DELETE": "compute:removed"}

    def get(self, request: Request, network_id: str = "") -> Response:
        """Show one network."""
        policy.enforce(self.context, "network:networks:show")
        try:
            network = selectors.network_for(self.context, network_id, all_projects=True)
        except NotFoundError as error:
            raise NotFoundError("Network not found") from error
        return Response({"network": self.shape(network)})

    def delete(self, request: Request, network_id: str) -> Response:
        """Say that it is gone."""
        raise GoneError(GONE)


class NetworkView(NetworkItemProxy):
    """``/os-networks/{id}``."""


class _OfTenant(NetworkProxy):
    def shape(self, network: Network) -> dict[str, Any]:
        """One network as projects saw it; ``None`` is the text that Nova gives."""
        return {"id": str(network.id), "label": network.name, "cidr": "None"}


class TenantNetworksView(_OfTenant):
    """``/os-tenant-networks``."""


class TenantNetworkView(_OfTenant, NetworkItemProxy):
    """``/os-tenant-networks/{id}``."""


class FloatingIpsView(ProxyView):
    """``/os-floating-ips``: there are none, and no pool to take one from."""

    rules = {"GET": "compute:floating_ips:list", "POST": "compute:floating_ips:create"}

    def get(self, request: Request) -> Response:
        """None."""
        return Response({"floating_ips": []})

    def post(self, request: Request) -> Response:
        """Say that there is no pool."""
        raise NotFoundError("Floating IP pool not found.")


class FloatingIpView(ProxyView):
    """``/os-floating-ips/{id}``."""

    rules = {"GET": "compute:floating_ips:show", "DELETE": "compute:floating_ips:delete"}

    def get(self, request: Request, floating_ip_id: str) -> Response:
        """Say that there is none."""
        raise NotFoundError(f"Floating IP not found for ID {floating_ip_id[:64]}")

    delete = get


class FloatingIpPoolsView(ProxyView):
    """``GET /os-floating-ip-pools``."""

    rules = {"GET": "compute:floating_ip_pools:list"}

    def get(self, request: Request) -> Response:
        """None."""
        return Response({"floating_ip_pools": []})


class SecurityGroupsView(ProxyView):
    """``/os-security-groups``."""

    rules = {"GET": "compute:security_groups:list", "POST": "compute:security_groups:change"}
    queries = {"GET": proxy_schemas.limited}

    def get(self, request: Request) -> Response:
        """The project's groups by name; an operator's ``all_tenants`` shows every project's."""
        policy.enforce(self.context, "network:security_groups:list")
        query = self.checked_query()
        groups = selectors.security_groups_for(self.context, all_projects="all_tenants" in query)
        first, most = int(last(query, "offset") or 0), int(last(query, "limit") or LARGEST)
        rows = groups.prefetch_related(REMOTE).order_by("project_id", "name", "id")
        found = rows[first : first + min(most or LARGEST, LARGEST)]
        return Response({"security_groups": [security_group(group) for group in found]})

    def post(self, request: Request) -> Response:
        """Refuse: the Network API changes them."""
        raise NotOfferedError(_CHANGED_ELSEWHERE)


class SecurityGroupView(ProxyView):
    """``/os-security-groups/{id}``."""

    rules = {
        "GET": "compute:security_groups:show",
        "PUT": "compute:security_groups:change",
        "DELETE": "compute:security_groups:change",
    }

    def get(self, request: Request, security_group_id: str) -> Response:
        """Show one group."""
        policy.enforce(self.context, "network:security_groups:show")
        try:
            group = selectors.security_group_for(self.context, security_group_id, all_projects=True)
        except NotFoundError as error:
            raise NotFoundError(f"Security group {security_group_id[:64]} not found.") from error
        return Response({"security_group": security_group(group)})

    def put(self, request: Request, security_group_id: str) -> Response:
        """Refuse: the Network API changes them."""
        raise NotOfferedError(_CHANGED_ELSEWHERE)

    delete = put


class SecurityGroupRulesView(ProxyView):
    """``POST /os-security-group-rules``."""

    rules = {"POST": "compute:security_groups:change"}

    def post(self, request: Request) -> Response:
        """Refuse: the Network API changes them."""
        raise NotOfferedError(_CHANGED_ELSEWHERE)


class SecurityGroupRuleView(ProxyView):
    """``DELETE /os-security-group-rules/{id}``."""

    rules = {"DELETE": "compute:security_groups:change"}

    def delete(self, request: Request, rule_id: str) -> Response:
        """Refuse: the Network API changes them."""
        raise NotOfferedError(_CHANGED_ELSEWHERE)
