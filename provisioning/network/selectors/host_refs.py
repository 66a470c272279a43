"""Networks and subnets in the form that is sent to hosts."""

from collections.abc import Collection, Iterable

from compute_agent.contract.build import HostRoute, Segment, SubnetRef
from provisioning.network import addressing
from provisioning.network.models import Network, Port, Subnet


def segment_ref(network: Network) -> Segment:
    """Return the segment that connects the network's bridges on different hosts."""
    return Segment(type=network.network_type, id=network.segmentation_id, physical_network=network.physical_network)


def subnet_refs(subnets: Iterable[Subnet], routed: Collection[str] = ()) -> list[SubnetRef]:
    """Return the subnets of a network, the oldest first; ``routed``: addresses of routers on it."""
    ordered = sorted(subnets, key=lambda subnet: (subnet.created_at, subnet.id))
    return [
        SubnetRef(
            id=str(subnet.id),
            cidr=subnet.cidr,
            gateway=subnet.gateway_ip,
            enable_dhcp=subnet.enable_dhcp,
            dns_nameservers=subnet.dns_nameservers,
            host_routes=[
                HostRoute(destination=addressing.network_of(route["destination"]), next_hop=route["nexthop"])
                for route in subnet.host_routes
            ],
            ipv6_ra_mode=subnet.ipv6_ra_mode,
            ipv6_address_mode=subnet.ipv6_address_mode,
            routed=subnet.gateway_ip in routed,
        )
        for subnet in ordered
    ]


def dns_assignment(port: Port) -> list[dict[str, str]]:
    """Return Neutron's ``dns_assignment``: the names of a port's addresses, by default derived from the address.

    ``port`` comes from ``ports_for``, which sets ``on_shared_network``.
    """
    domain = project_domain(port, port.network, shared=port.on_shared_network) or port.network.domain
    result = []
    for each in port.fixed_ips.all():
        name = port.dns_name or "host-" + each.address.replace(".", "-").replace(":", "-")
        result.append({"ip_address": each.address, "hostname": name, "fqdn": f"{name}.{domain}."})
    return result


def project_domain(port: Port, network: Network, *, shared: bool) -> str:
    """Return the project's domain on a network that is ``shared`` with other projects; empty on other networks.

    The domain begins with the first twelve digits of the project's id, a label that no user can choose. With the whole
    id, most guests' names would exceed the limit of Linux (64 characters).
    """
    return f"{port.project_id.hex[:12]}.{network.domain}" if shared else ""
