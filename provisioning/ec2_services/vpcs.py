"""VPCs: networks with their own router, created and deleted together, and attributes that only EC2 has."""

import uuid

from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.network.errors import VpcInUseError
from provisioning.network.models import GroupVpc, InternetGateway, Network, Port, Router, SecurityGroup, Subnet, Vpc
from provisioning.network.records.owners import ROUTER_INTERFACE
from provisioning.network.selectors.vpcs import default_group_of
from provisioning.network.services.base import records
from provisioning.network.services.networks.networks import create_network, delete_network
from provisioning.network.services.networks.subnets import SubnetFields, create_subnet, delete_subnet
from provisioning.network.services.routing.router_interfaces import add_interface_by_subnet, remove_interface_by_subnet
from provisioning.network.services.routing.routers import create_router, delete_router, legs_of
from provisioning.network.services.security.security_groups import create_security_group, delete_security_group

LONGEST_NAME = 255
OF_VPC = "default VPC security group"


@when_broken_off
@transaction.atomic
def create_vpc(project_id: uuid.UUID, cidr: str, name: str) -> Vpc:
    """Create a network with its own router and default security group; ``cidr``: the range of its subnets.

    The default group is the VPC's own, because clients of EC2 change it, and the change must not affect other networks.
    Raises the errors of ``create_network``, ``create_router`` and ``create_security_group``.
    """
    network = create_network(project_id, name)
    group = create_security_group(project_id, f"default of {name}"[:LONGEST_NAME], description=OF_VPC, as_default=True)
    GroupVpc.objects.create(group=group, network=network, is_default=True)
    return Vpc.objects.create(network=network, router=create_router(project_id, name=name), cidr=cidr)


@when_broken_off
@transaction.atomic
def delete_vpc(network: Network) -> None:
    """Delete a network, with the router and the default security group that were created with it.

    Raises SecurityGroupInUseError while interfaces on other networks use the group, VpcInUseError while the network has
    subnets or an internet gateway, and the errors of ``delete_network``.
    """
    network = records.lock_to_delete(network)
    if Subnet.objects.filter(network=network).exists():
        raise _in_use(network, "It has subnets.")
    vpc = Vpc.objects.select_related("router").filter(network=network).first()
    router = vpc.router if vpc is not None else None
    if router is not None and not legs_of(router).exists():
        if router.gateway_port_id is not None or InternetGateway.objects.filter(router=router, made=True).exists():
            raise _in_use(network, "It has an internet gateway.")
        delete_router(router)
    group = default_group_of(network.id)
    if group is not None:
        delete_security_group(group)
    delete_network(network)


def _in_use(network: Network, why: str) -> VpcInUseError:
    return VpcInUseError(f"Network {network.id} has dependencies and cannot be deleted. {why}")


@when_broken_off
@transaction.atomic
def create_routed_subnet(network: Network, cidr: str, router: Router | None, fields: SubnetFields) -> Subnet:
    """Create a subnet and connect the router to it.

    Raises the errors of ``create_subnet`` and ``add_interface_by_subnet``.
    """
    subnet = create_subnet(network, cidr, **fields)
    if router is not None:
        add_interface_by_subnet(router, subnet)
    return subnet


@when_broken_off
@transaction.atomic
def delete_routed_subnet(subnet: Subnet) -> None:
    """Disconnect the routers of a subnet's project and delete the subnet.

    Raises the errors of ``remove_interface_by_subnet`` and ``delete_subnet``.
    """
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, fixed_ips__subnet=subnet).values("device_id")
    for router in Router.objects.filter(id__in=legs, project_id=subnet.project_id).order_by("id"):
        remove_interface_by_subnet(router, subnet)
    delete_subnet(subnet)


def note_vpc_of_group(group: SecurityGroup, network: Network) -> None:
    """Record the VPC in which a security group was created."""
    GroupVpc.objects.create(group=group, network=network)
