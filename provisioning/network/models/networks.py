"""Networks and subnets, and the subnet pools and address scopes that their ranges come from."""

from django.db import models
from django.db.models import Q

from provisioning.network.models.base import Named, Shareable, json_list

DNS_DOMAIN = "novalocal"
"""The domain of guests on networks that specify none; Nova's default."""


class Network(Shareable, Named):
    """A layer 2 network: a bridge on every host that needs it, and a segment that connects the bridges."""

    shared_with_others = False
    """Whether other projects than its owner may use it; set by ``networks_for``."""

    shared = models.BooleanField(default=False)  # True if an RBAC policy shares it with all projects
    external = models.BooleanField(default=False)  # for floating IPs and routers' gateways
    is_default = models.BooleanField(default=False)  # the external network used when a request names none
    admin_state_up = models.BooleanField(default=True)
    port_security_enabled = models.BooleanField(default=True)  # the default of new ports
    mtu = models.PositiveIntegerField(default=1500)
    bridge = models.CharField(max_length=15, unique=True)
    network_type = models.CharField(max_length=8, default="vxlan")  # vxlan, flat, vlan
    physical_network = models.CharField(max_length=64, blank=True)  # of flat and vlan
    segmentation_id = models.PositiveIntegerField(null=True)  # the VNI or VLAN tag
    dns_domain = models.CharField(max_length=255, default=DNS_DOMAIN)
    availability_zone_hints = json_list()  # names of zones; only shown: a network is on the hosts of its guests
    status = models.CharField(max_length=8, default="ACTIVE")
    error = models.CharField(max_length=255, blank=True)  # why a host could not apply it

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["network_type", "physical_network", "segmentation_id"],
                condition=Q(segmentation_id__isnull=False),
                name="one_network_per_segment",
                violation_error_message="Another network has this type, physical network and segmentation ID.",
            ),
            models.UniqueConstraint(
                fields=["physical_network"],
                condition=Q(network_type="flat"),
                name="one_flat_network_per_wire",
                violation_error_message="Another flat network is on this physical network.",
            ),
        ]

    @property
    def domain(self) -> str:
        """The domain that guests get from DHCP, without the trailing dot that Neutron allows."""
        return self.dns_domain.rstrip(".") or DNS_DOMAIN


class AddressScope(Shareable, Named):
    """Subnet pools whose ranges do not overlap, so that their subnets can be routed to each other without NAT."""

    ip_version = models.PositiveSmallIntegerField(default=4)
    shared = models.BooleanField(default=False)


class SubnetPool(Shareable, Named):
    """Prefixes that the ranges of subnets are allocated from."""

    ip_version = models.PositiveSmallIntegerField(default=4)
    prefixes = json_list()  # CIDR texts
    default_prefixlen = models.PositiveSmallIntegerField()
    min_prefixlen = models.PositiveSmallIntegerField()
    max_prefixlen = models.PositiveSmallIntegerField()
    default_quota = models.PositiveIntegerField(null=True)  # limit of one project: addresses, or /64s of IPv6
    address_scope = models.ForeignKey(AddressScope, null=True, on_delete=models.PROTECT, related_name="subnet_pools")
    shared = models.BooleanField(default=False)
    is_default = models.BooleanField(default=False)


class Subnet(Named):
    """A range of a network, with its allocation pools."""

    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="subnets")
    subnet_pool = models.ForeignKey(SubnetPool, null=True, on_delete=models.PROTECT, related_name="subnets")
    ip_version = models.PositiveSmallIntegerField(default=4)
    cidr = models.CharField(max_length=43)
    gateway_ip = models.GenericIPAddressField(null=True)
    enable_dhcp = models.BooleanField(default=True)
    dhcp_address = models.GenericIPAddressField(
        null=True
    )  # DHCP's address if there is no gateway; never allocated to ports
    dns_nameservers = json_list()
    allocation_pools = json_list()  # [{"start": …, "end": …}]
    host_routes = json_list()  # [{"destination": …, "nexthop": …}]
    ipv6_ra_mode = models.CharField(max_length=16, blank=True)
    ipv6_address_mode = models.CharField(max_length=16, blank=True)
    service_types = json_list()  # device owners whose ports get addresses here; empty: all

    def __str__(self) -> str:
        return self.name or self.cidr
