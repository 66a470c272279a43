"""Neutron's values of ``device_owner``, and queries for ports by their owner."""

from django.db.models import Q

CLOUD = "network:"
"""The prefix for ports that the cloud creates; they count for no quota."""
COMPUTE = "compute:"
"""The prefix for guests' ports; the availability zone follows."""
DHCP = "network:dhcp"
ROUTER_INTERFACE = "network:router_interface"
ROUTER_GATEWAY = "network:router_gateway"
FLOATING_IP = "network:floatingip"
AGENT_GATEWAY = "network:floatingip_agent_gateway"
"""A host's own address on an external network."""

OF_THE_CLOUD = Q(device_owner__startswith=CLOUD)
OF_THE_NETWORK = (DHCP, AGENT_GATEWAY)
"""Ports that the cloud creates by itself; they do not prevent the deletion of a subnet or network."""
GUESTS = Q(device_owner__startswith=COMPUTE)
"""Ports of guests."""
UNBOUND = Q(host="") & ~GUESTS
"""Ports on no host: guests with allowed address pairs may use their addresses (VRRP)."""
