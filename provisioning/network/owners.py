"""Who owns ports: Neutron's words for ``device_owner``."""

from django.db.models import Q

CLOUD = "network:"
"""The beginning of what the cloud itself makes: such ports are in no quota."""
COMPUTE = "compute:"
"""The beginning of a guest's; the availability zone follows."""
DHCP = "network:dhcp"
ROUTER_INTERFACE = "network:router_interface"
ROUTER_GATEWAY = "network:router_gateway"
FLOATING_IP = "network:floatingip"
AGENT_GATEWAY = "network:floatingip_agent_gateway"
"""A host's own address on an external network."""

OF_THE_CLOUD = Q(device_owner__startswith=CLOUD)
OF_THE_NETWORK = (DHCP, AGENT_GATEWAY)
"""Ports that the cloud makes by itself: they are in nobody's way when a subnet or a network is deleted."""
GUESTS = Q(device_owner__startswith=COMPUTE)
"""Ports of guests."""
UNBOUND = Q(host="") & ~GUESTS
"""Ports on no host: guests that are allowed to may bear their addresses (allowed address pairs, VRRP)."""
