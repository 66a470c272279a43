"""Routers, floating IPs and port forwardings as a caller may see them."""

import uuid
from collections.abc import Iterable

from django.db.models import Count, QuerySet, UUIDField, Value

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.network.errors import FloatingIPNotFoundError, PortForwardingNotFoundError, RouterNotFoundError
from provisioning.network.models import FloatingIP, Network, Port, PortForwarding, Router, Subnet
from provisioning.network.records.owners import ROUTER_INTERFACE
from provisioning.network.selectors.records import networks_for, one_of
from provisioning.network.selectors.visibility import Viewer, visible


def routers_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[Router]:
    """Return the project's routers; ``all_projects`` is for operators."""
    return visible(context, Router.objects.select_related("gateway_port"), "router", all_projects=all_projects)


def router_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> Router:
    """Return one router. Raises RouterNotFoundError if it does not exist or belongs to another project."""
    router = one_of(routers_for, context, identity, all_projects=all_projects)
    if router is None:
        raise RouterNotFoundError(f"Router {identity} could not be found")
    return router


def routers_out(context: RequestContext) -> list[Router]:
    """Return the project's own routers with an external gateway, the oldest first."""
    rows = routers_for(context).filter(project_id=context.project_id or NOBODY, gateway_port__isnull=False)
    return list(rows.order_by("created_at", "id"))


def leg_counts(router_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return router → number of its interfaces; one query."""
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id__in=list(router_ids))
    return {key: many for key, many in legs.values_list("device_id").annotate(Count("pk")) if key}


def legs_of(router: Router) -> list[Port]:
    """Return the ports of a router's interfaces, with their addresses."""
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id=router.id).select_related("network")
    return list(legs.prefetch_related("fixed_ips__subnet").order_by("created_at", "id"))


def floating_ips_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[FloatingIP]:
    """Return the project's floating IPs, with the records that are shown with them."""
    rows = FloatingIP.objects.select_related("fixed_port", "network").prefetch_related("port_forwardings")
    return visible(context, rows, "floatingip", all_projects=all_projects)


def floating_ip_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> FloatingIP:
    """Return one floating IP. Raises FloatingIPNotFoundError if it does not exist or belongs to another project."""
    floating_ip = one_of(floating_ips_for, context, identity, all_projects=all_projects)
    if floating_ip is None:
        raise FloatingIPNotFoundError(f"Floating IP {identity} could not be found")
    return floating_ip


def floating_ip_at(context: RequestContext, address: str) -> FloatingIP:
    """Return the project's floating IP with this address.

    Raises FloatingIPNotFoundError, and ConflictError if the project has the address on several networks.
    """
    floating_ips = list(floating_ips_for(context).filter(address=address)[:2])
    if not floating_ips:
        raise FloatingIPNotFoundError("floating IP not found", field="address")
    if len(floating_ips) > 1:
        raise ConflictError(f"Multiple floating IPs are found for address {address}.", field="address")
    return floating_ips[0]


def port_forwardings_of(floating: FloatingIP) -> QuerySet[PortForwarding]:
    """Return the forwardings of a floating IP."""
    return PortForwarding.objects.filter(floating_ip=floating)


def port_forwarding_for(floating: FloatingIP, identity: str | uuid.UUID) -> PortForwarding:
    """Return a forwarding of a floating IP. Raises PortForwardingNotFoundError."""
    port_forwarding = (
        floating.port_forwardings.select_related("internal_port").filter(pk=read_id(identity) or NOBODY).first()
    )
    if port_forwarding is None:
        raise PortForwardingNotFoundError(f"Port Forwarding {identity} could not be found.")
    return port_forwarding


def floating_ip_pools_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Subnet]:
    """Return the IPv4 subnets of the external networks that the caller sees, each with the caller's project
    ``caller_id``, which Neutron shows as the project of the pool.
    """
    networks = networks_for(context, all_projects=all_projects).filter(external=True)
    rows = Subnet.objects.filter(network__in=networks.values("pk"), ip_version=4)
    return rows.annotate(caller_id=Value(context.project_id, output_field=UUIDField(null=True)))


def external_networks_for(context: RequestContext) -> list[Network]:
    """Return the external networks that the caller sees, the default one first."""
    rows = networks_for(context).filter(external=True, admin_state_up=True, subnets__ip_version=4).distinct()
    return list(rows.prefetch_related("subnets").order_by("-is_default", "name", "id"))
