"""Auto-allocated topology of Neutron: a project's own network with a router to the external network."""

import uuid

from django.conf import settings
from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.identity.records import owner_locks
from provisioning.network.errors import AutoAllocationFailureError
from provisioning.network.models import AutoAllocatedTopology, Network, SubnetPool
from provisioning.network.services.networks.networks import create_network, delete_network
from provisioning.network.services.networks.subnets import create_subnet
from provisioning.network.services.routing.router_interfaces import add_interface_by_subnet, remove_interface_by_subnet
from provisioning.network.services.routing.routers import Gateway, create_router, delete_router, legs_of

NETWORK, ROUTER, SUBNET = "auto_allocated_network", "auto_allocated_router", "auto_allocated_subnet_v4"
"""Names of the resources of an auto-allocated topology, as in Neutron."""


def check_topology() -> Network:
    """Return the external network for projects' routers.  Raises AutoAllocationFailureError if there is none."""
    network = Network.objects.filter(external=True, is_default=True, admin_state_up=True, subnets__ip_version=4).first()
    if network is None:
        raise _failure("No default router:external network.")
    return network


@when_broken_off
@transaction.atomic
def allocate_topology(project_id: uuid.UUID, name: str = "") -> AutoAllocatedTopology:
    """Return the project's network and router, creating them if they do not exist.

    The subnet has a range of the default subnet pool, or PROJECT_NETWORK_RANGE if there is no such pool; the router's
    gateway is the default external network.  ``name``: the name of network, subnet and router, by default Neutron's.
    The project is locked, so that concurrent calls create only one.  Raises AutoAllocationFailureError, OverQuotaError,
    OutOfAddressesError, NotFoundError if the project was deleted.
    """
    owner_locks.lock_project(project_id)
    there = AutoAllocatedTopology.objects.filter(pk=project_id).first()
    if there is not None:
        return there
    outside = check_topology()
    network = create_network(project_id, name or NETWORK)
    pool = SubnetPool.objects.filter(is_default=True, ip_version=4).first()
    cidr = None if pool else settings.PROJECT_NETWORK_RANGE
    subnet = create_subnet(network, cidr, name=name or SUBNET, subnet_pool=pool)
    router = create_router(project_id, name=name or ROUTER, gateway=Gateway(outside))
    add_interface_by_subnet(router, subnet)
    return AutoAllocatedTopology.objects.create(project_id=project_id, network=network, router=router)


@when_broken_off
@transaction.atomic
def delete_topology(project_id: uuid.UUID) -> None:
    """Delete the project's auto-allocated network and router, if any.

    Raises NetworkInUseError, RouterInUseError or a similar error while other resources use them; nothing is deleted
    then.
    """
    owner_locks.lock_project(project_id)
    there = AutoAllocatedTopology.objects.filter(pk=project_id).select_related("network", "router").first()
    if there is None:
        return
    for subnet in there.network.subnets.order_by("created_at", "id"):
        if legs_of(there.router).filter(fixed_ips__subnet=subnet).exists():
            remove_interface_by_subnet(there.router, subnet)
    delete_router(there.router)
    delete_network(there.network)


def _failure(reason: str) -> AutoAllocationFailureError:
    return AutoAllocationFailureError(f"Deployment error: {reason}")
