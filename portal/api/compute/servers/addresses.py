"""``GET /servers/{id}/ips``: the addresses of a server, by network."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.servers.shapes import addresses
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors
from provisioning.network import selectors as network


class AddressesView(ComputeView):
    """``GET /servers/{id}/ips``."""

    rules = {"GET": "os_compute_api:ips:index"}

    def get(self, request: Request, server_id: str, network_label: str | None = None) -> Response:
        """List the addresses of every network, or of the specified one."""
        instance = selectors.instance_for(self.context, server_id)
        found = addresses(network.addresses_of([instance.id]).get(instance.id, ()), extended=False)
        if network_label is None:
            return Response({"addresses": found})
        if network_label not in found:
            raise NotFoundError("Instance is not a member of specified network")
        return Response({network_label: found[network_label]})


class NetworkAddressesView(AddressesView):
    """``GET /servers/{id}/ips/{network}``."""

    rules = {"GET": "os_compute_api:ips:show"}
