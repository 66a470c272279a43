"""Networks in the Compute API up to 2.35."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.proxies.base import ProxyView
from provisioning.common.errors import NotFoundError
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
"""Fields of nova-network, which no longer exists; their value is null."""


class NetworksView(ProxyView):
    """``GET /os-networks``."""

    rules = {"GET": "os_compute_api:os-networks:list"}

    def get(self, request: Request) -> Response:
        """List the networks that the project may use."""
        policy.enforce(self.context, "get_network")
        found = selectors.networks_for(self.context, all_projects=True).order_by("name", "id")
        return Response({"networks": [self.shape(network) for network in found]})

    def shape(self, network: Network) -> dict[str, Any]:
        """One network: only two of nova-network's thirty fields have a value."""
        more = _OPERATORS_FIELDS if self.context.is_admin else ()
        return {"id": str(network.id), "label": network.name} | dict.fromkeys((*_FIELDS, *more))


class NetworkView(NetworksView):
    """``GET /os-networks/{id}``."""

    rules = {"GET": "os_compute_api:os-networks:show"}

    def get(self, request: Request, network_id: str = "") -> Response:
        policy.enforce(self.context, "get_network")
        try:
            network = selectors.network_for(self.context, network_id, all_projects=True)
        except NotFoundError as error:
            raise NotFoundError("Network not found") from error
        return Response({"network": self.shape(network)})


class TenantNetworksView(NetworksView):
    """``GET /os-tenant-networks``."""

    rules = {"GET": "os_compute_api:os-tenant-networks:list"}

    def shape(self, network: Network) -> dict[str, Any]:
        """Return the fields of a network that projects saw in nova-network; the text ``"None"`` is Nova's."""
        return {"id": str(network.id), "label": network.name, "cidr": "None"}


class TenantNetworkView(TenantNetworksView, NetworkView):
    """``GET /os-tenant-networks/{id}``."""

    rules = {"GET": "os_compute_api:os-tenant-networks:show"}
    get = NetworkView.get
