"""Periodic tasks of networking: free released addresses, delete orphaned tags, and complete records."""

from django.db import transaction
from django.db.models import Exists, OuterRef

from compute_agent.contract.network import NETWORK
from provisioning.jobs.registry import periodic
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
from provisioning.network.records import owners
from provisioning.network.records.marks import mark
from provisioning.network.services.addressing import dhcp_ports, ipam
from provisioning.network.services.networks import networks
from provisioning.network.services.ports import stateless


@periodic("network.forget_released", every=15.0)
def forget_released() -> None:
    """Free addresses that were held for long enough after their release."""
    ipam.forget_released()


@periodic("network.follow_subnets", every=60.0)
def follow_subnets() -> None:
    """Give ports the addresses that their guests derive on a subnet that was created at the same time as the ports."""
    stateless.follow_lately()


@periodic("network.forget_tags", every=600.0)
def forget_tags() -> None:
    """Delete tags of records that no longer exist.

    Ports of servers, routers and floating IPs are deleted without their tags; other records are deleted with them.
    """
    gone = Tag.objects.all()
    for model in (AddressGroup, AddressScope, FloatingIP, Network, Port, Router, SecurityGroup, SecurityGroupRule,
                  Subnet, SubnetPool):  # fmt: skip
        gone = gone.exclude(Exists(model._default_manager.filter(pk=OuterRef("resource_id"))))
    gone.delete()


@periodic("network.complete", every=300.0)
def complete() -> None:
    """Give networks of older versions a VNI, a DHCP port and at least the MTU that IPv6 requires."""
    for network in Network.objects.filter(network_type=networks.VXLAN, segmentation_id=None).order_by("id"):
        networks.allocate_segment(network)
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
