"""Networks in the Compute API up to 2.35."""

from typing import Any

from django.db.models import QuerySet

from portal.api.compute.proxies.base import ProxyView
from portal.api.frame.parts import Call, Shape, Views, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
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


def _list(context: RequestContext) -> QuerySet[Network]:
    return selectors.networks_for(context, all_projects=True).order_by("name", "id")


def _show(context: RequestContext, network_id: str) -> Network:
    try:
        return selectors.network_for(context, network_id, all_projects=True)
    except NotFoundError as error:
        raise NotFoundError("Network not found") from error


def _shape(view: ProxyView, network: Network) -> dict[str, Any]:
    """Return a network: only two of nova-network's thirty fields have a value."""
    more = _OPERATORS_FIELDS if view.context.is_admin else ()
    return {"id": str(network.id), "label": network.name} | dict.fromkeys((*_FIELDS, *more))


def _tenant_shape(view: ProxyView, network: Network) -> dict[str, Any]:
    """Return the fields of a network that projects saw in nova-network; the text ``"None"`` is Nova's."""
    return {"id": str(network.id), "label": network.name, "cidr": "None"}


def _parts(path: str, shape: Shape) -> Views:
    calls = {
        "GET": Call(
            _list,
            f"os_compute_api:{path}:list",
            "List the networks that the project may use.",
            also=("get_network",),
            name="networks",
            shape=lambda view, found: [shape(view, each) for each in found],
        ),
        "GET /{network_id}": Call(
            _show, f"os_compute_api:{path}:show", also=("get_network",), name="network", shape=shape
        ),
    }
    return parts(ProxyView, path, calls)


PARTS = _parts("os-networks", _shape) | _parts("os-tenant-networks", _tenant_shape)
