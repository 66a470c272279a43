"""Internet gateways of EC2: detached, or attached to a router, which they connect to the external network."""

import uuid
from collections.abc import Collection, Iterable

from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import OverQuotaError
from provisioning.ec2 import given
from provisioning.identity.records import owner_locks
from provisioning.network.errors import GatewayAttachedError
from provisioning.network.models import InternetGateway, Network, Router
from provisioning.network.services.base import records
from provisioning.network.services.routing.routers import Gateway, update_router

EVERYWHERE = ("0.0.0.0/0", "::/0")
"""The destinations that can be routed through a gateway."""
MOST_ON_THE_SHELF = 20
"""Limit of a project's detached gateways."""


@when_broken_off
@transaction.atomic
def create_internet_gateway(project_id: uuid.UUID) -> InternetGateway:
    """Create a detached gateway.

    Raises OverQuotaError at the limit of detached gateways, NotFoundError if the project was deleted.
    """
    owner_locks.lock_project(project_id)
    unused = InternetGateway.objects.filter(project_id=project_id, router=None).count()
    if unused >= MOST_ON_THE_SHELF:
        raise OverQuotaError("internet gateways", limit=MOST_ON_THE_SHELF, used=unused, requested=1)
    return InternetGateway.objects.create(project_id=project_id)


def stand_for_routers(project_id: uuid.UUID, router_ids: Iterable[uuid.UUID]) -> None:
    """Store the internet gateways of routers that the Networking API has connected; each has the id of its router."""
    rows = [InternetGateway(pk=each, project_id=project_id, router_id=each, made=False) for each in router_ids]
    InternetGateway.objects.bulk_create(rows, ignore_conflicts=True)  # another request may insert the same rows


@when_broken_off
@transaction.atomic
def attach_internet_gateway(gateway: InternetGateway, router: Router, network: Network) -> None:
    """Attach a gateway to a router, whose floating IPs are reachable from then on.

    The gateway has no routes yet, so guests without a floating IP have no external access.

    Raises GatewayAttachedError if the gateway or the router is already attached, and the errors of ``update_router``.
    """
    router = records.lock(router)
    gateway = records.lock(gateway)
    if gateway.router_id is not None:
        raise GatewayAttachedError(f"Internet gateway {gateway.id} is already attached")
    InternetGateway.objects.filter(router=router, made=False, router__gateway_port=None).delete()
    if router.gateway_port_id is not None or InternetGateway.objects.filter(router=router).exists():
        raise GatewayAttachedError(f"Router {router.id} already has an internet gateway")
    gateway.router = router
    gateway.save(update_fields=["router"])
    update_router(router, {"gateway": Gateway(network, enable_snat=False)})
    given.keep(gateway.project_id, gateway.id, {given.ROUTES: []})


@when_broken_off
@transaction.atomic
def route_through(gateway: InternetGateway, network: Network, destinations: Collection[str]) -> None:
    """Route these destinations, and no others, through an attached gateway to the external network.

    Raises GatewayAttachedError if the gateway is not attached, and the errors of ``update_router``.
    """
    router = gateway.router
    if router is None:
        raise GatewayAttachedError(f"Internet gateway {gateway.id} is not attached")
    InternetGateway.objects.filter(pk=gateway.pk).update(made=True)
    update_router(router, {"gateway": Gateway(network, enable_snat=EVERYWHERE[0] in destinations)})
    given.keep(gateway.project_id, gateway.id, {given.ROUTES: sorted(destinations)})


@when_broken_off
@transaction.atomic
def detach_internet_gateway(gateway: InternetGateway) -> None:
    """Detach a gateway from its router. The router loses its external gateway.

    Raises RouterExternalGatewayInUseByFloatingIpError.
    """
    router = gateway.router
    if router is not None and router.gateway_port_id is not None:
        update_router(router, {"gateway": None})
    given.forget(gateway.id, given.ROUTES)
    InternetGateway.objects.filter(pk=gateway.pk).update(router=None, made=True)


@when_broken_off
def delete_internet_gateway(gateway: InternetGateway) -> None:
    """Delete a gateway.  Raises GatewayAttachedError while it is attached to a router."""
    with transaction.atomic():
        row = records.lock(gateway)
        if row.router_id is not None:
            raise GatewayAttachedError(f"Internet gateway {row.id} has dependencies and cannot be deleted")
        row.delete()
