"""Networks."""

from provisioning.common.environment import integer, ipv4_range, text, whole_range

VNI_FIRST, VNI_LAST = whole_range("NOVELLA_VNI_RANGE", (1000, 16_777_215), 1, 16_777_215)
"""VXLAN network identifiers for new networks; when none is left, a new network is refused with 409."""
PHYSICAL_MTU = integer("NOVELLA_PHYSICAL_MTU", 1500, 1330, 9216)
"""Bytes of a packet between hosts (``global_physnet_mtu`` of Neutron): the MTU of new flat and VLAN networks; VXLAN
networks have 50 less, and no network may have more.
"""
ADDRESS_HOLD = integer("NOVELLA_ADDRESS_HOLD", 60, 0, 86_400)
"""Seconds for which a released address is allocated only to requests that name it, because neighbours may still have
the previous guest in their caches; if no other address is left, the one released first is allocated; 0: no hold.
"""
PROJECT_NETWORK_RANGE = ipv4_range("NOVELLA_PROJECT_NETWORK_RANGE", "10.50.0.0/24")
"""IPv4 range of the network that ``--with-network`` or an auto-allocated topology creates for a project; all projects
have the same range, isolated from each other. A default subnet pool (``openstack subnet pool create --default …``)
overrides it.
"""
AUTO_FLOATING_IP = text("NOVELLA_AUTO_FLOATING_IP", "")
"""Name or id of an external network from which every new server gets a floating IP, if a router connects one of its
networks to it. It counts in the project's quota and is deleted with its server; if the quota or the addresses are
exhausted, the launch is refused. Empty: no automatic floating IPs.
"""
