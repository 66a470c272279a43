"""Networks and ports for the interfaces of a launch's servers."""

from provisioning.common.context import RequestContext
from provisioning.compute.launch.request import LaunchRequest
from provisioning.network import selectors as network


def check_networks(context: RequestContext, request: LaunchRequest, count: int) -> list[dict[str, str | None]]:
    """Return each interface's ``network_id`` or ``port_id``, ``fixed_ip``, and optional ``tag``.

    ``count`` is the maximum number of servers; a request with a port or an address is limited to one. Raises
    InvalidInputError.
    """
    if request.networks is None or isinstance(request.networks, str):
        return network.requested_networks_for(context, request.networks, count=count)
    requested: network.Asked = [
        {
            "network_id": interface.network_id,
            "port_id": interface.port_id,
            "fixed_ip": interface.fixed_ip,
            "subnet_id": interface.subnet_id,
        }
        for interface in request.networks
    ]
    found = network.requested_networks_for(context, requested, count=count)
    return [
        entry | ({"tag": interface.tag} if interface.tag else {})
        for entry, interface in zip(found, request.networks, strict=True)
    ]
