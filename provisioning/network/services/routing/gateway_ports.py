"""Gateway ports of routers on external networks. A gateway port may be older than the network's subnets."""

from compute_agent.contract.network import ROUTER
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import Port, Subnet
from provisioning.network.records.marks import mark
from provisioning.network.records.owners import ROUTER_GATEWAY
from provisioning.network.services.addressing import addresses
from provisioning.network.services.addressing.ipam import is_stateless
from provisioning.network.services.base import records


def follow_new(subnet: Subnet) -> None:
    """Allocate an address of a new subnet to each gateway port on its network that has no address of the IP version.

    As ``update_router_gw_port`` of Neutron. If the subnet has too few addresses, the remaining ports get none.
    """
    if is_stateless(subnet):
        return
    ports = Port.objects.filter(network=subnet.network_id, device_owner=ROUTER_GATEWAY)
    for port in ports.exclude(fixed_ips__subnet__ip_version=subnet.ip_version).order_by("id"):
        try:
            addresses.allocate_free(port, [subnet])
        except OutOfAddressesError:
            return
        records.touch(port)
        mark(ROUTER, [port.device_id] if port.device_id else [])
