"""What the clock does for networks: frees addresses that were held back, removes tags of what is gone, and completes
networks of older versions and ports that met a new subnet.
"""

from django.db import transaction
from django.db.models import Exists, OuterRef

from compute_agent.contract.network import NETWORK
from provisioning.jobs.registry import periodic
from provisioning.network import owners
from provisioning.network.marks import mark
from provisioning.network.models import (
    AddressGroup,
    AddressScope,
    FloatingIP,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
    Tag,
)
from provisioning.network.services import dhcp_ports, ipam, networks, stateless


@periodic("network.forget_released", every=15.0)
def forget_released() -> None:
    """Make addresses free that were held back for long enough."""
    ipam.forget_released()


@periodic("network.follow_subnets", every=60.0)
def follow_subnets() -> None:
    """Give ports what their guests make themselves of a subnet that was made in the moment in which they were."""
    stateless.follow_lately()


@periodic("network.forget_tags", every=600.0)
def forget_tags() -> None:
    """Remove tags of ports that went with their servers, routers and floating IPs; others go with their record."""
    gone = Tag.objects.all()
    for model in (AddressGroup, AddressScope, FloatingIP, Network, Port, Router, SecurityGroup, SecurityGroupRule,
                  Subnet, SubnetPool):  # fmt: skip
        gone = gone.exclude(Exists(model._default_manager.filter(pk=OuterRef("resource_id"))))
    gone.delete()


@periodic("network.complete", every=300.0)
def complete() -> None:
    """Give a VNI, a DHCP port and an MTU that IPv6 can do with to networks that were made before networks had them."""
    for network in Network.objects.filter(network_type=networks.VXLAN, segmentation_id=None).order_by("id"):
        networks.give_segment(network)
        mark(NETWORK, [network.id])
    for network in Network.objects.filter(mtu__lt=networks.SMALLEST_MTU).order_by("id"):
        networks.raise_mtu(network)
    served = Port.objects.filter(device_owner=owners.DHCP).values("network_id")
    without = Subnet.objects.filter(enable_dhcp=True).exclude(network__in=served).values("network_id")
    for network in Network.objects.filter(pk__in=without).order_by("id"):
        with transaction.atomic():
            list(Network.objects.select_for_update(no_key=True).filter(pk=network.pk))
            dhcp_ports.follow(network)
            mark(NETWORK, [network.id])
