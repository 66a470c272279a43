"""Floating IPs: allocated from an external network, associated with guests' addresses, and released."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet, UUIDField
from django.utils import timezone

from compute_agent.contract.network import FLOATING_IP
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.database.retry import when_broken_off
from provisioning.network import addressing
from provisioning.network.errors import (
    BadRequestError,
    ExternalGatewayForFloatingIPNotFoundError,
    FipInUseByPortForwardingError,
    FloatingIPPortAlreadyAssociatedError,
    PortHasPortForwardingError,
)
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, PortForwarding, Router, Subnet
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import mark
from provisioning.network.records.owners import FLOATING_IP as OWNER
from provisioning.network.records.owners import ROUTER_INTERFACE
from provisioning.network.selectors.uses import unassociated
from provisioning.network.services.addressing import addresses
from provisioning.network.services.addressing.dhcp_ports import create_own_port
from provisioning.network.services.base import records
from provisioning.quotas.services.ledger import hold


@when_broken_off
def create_floating_ip(
    project_id: uuid.UUID,
    network: Network,
    *,
    subnet: Subnet | None = None,
    address: str | None = None,
    port: Port | None = None,
    fixed_address: str | None = None,
    with_instance: uuid.UUID | None = None,
    **columns: str,
) -> FloatingIP:
    """Allocate a floating IP, the lowest free one or ``address``, and associate it with ``port`` if given.

    ``with_instance``: the instance that it is deleted with; ``columns``: description, dns_name, dns_domain. Raises
    OverQuotaError, OutOfAddressesError, IpAddressInUseError, BadRequestError and the errors of ``associate``.
    """
    if not network.external:
        raise _bad(f"Network {network.id} is not a valid external network")
    if fixed_address is not None and port is None:
        raise _bad("fixed_ip_address cannot be specified without a port_id")
    subnets = [each for each in network.subnets.order_by("created_at", "id") if each.ip_version == 4]
    if subnet is not None:
        subnets = [each for each in subnets if each.id == subnet.id]
    if not subnets:
        raise _bad(f"Network {network.id} does not contain any IPv4 subnet")
    floating = FloatingIP(project_id=project_id, network=network, with_instance=with_instance, **columns)
    with transaction.atomic():
        way = lock_way(port, network.id) if port is not None else None
        hold(project_id, floating.id, {"floatingips": 1})
        own = create_own_port(network=network, project_id=project_id, device_owner=OWNER, device_id=floating.id)
        taken = _allocate(own, subnets, address)
        floating.port, floating.address = own, taken.address
        floating.save(force_insert=True)
        if way is not None:
            _associate(floating, way, fixed_address, called="a floating IP")
        announce(floating, "create", ports=[port])
    return floating


@when_broken_off
def update_floating_ip(
    floating: FloatingIP,
    changes: Mapping[str, object],
    revision: int | None = None,
    *,
    fixed_address: str | None = None,
) -> FloatingIP:
    """Change the ``description`` of a floating IP, or associate it with ``port`` (None: disassociate it).

    Raises RevisionNumberConstraintFailedError and the errors of ``associate``.
    """
    port = changes.get("port")
    with transaction.atomic():
        way = lock_way(port, floating.network_id) if isinstance(port, Port) else None
        floating = records.lock(floating, revision)
        associated = floating.fixed_port
        if way is not None:
            _associate(floating, way, fixed_address)
        elif "port" in changes:
            _disassociate(floating)
        columns = {name: value for name, value in changes.items() if name != "port"}
        if not records.write(floating, columns):
            records.touch(floating)
        announce(floating, ports=[associated, floating.fixed_port])
    return floating


def associate(floating: FloatingIP, port: Port, fixed_address: str | None = None) -> FloatingIP:
    """Associate a floating IP with a port's address, replacing its previous association.

    ``fixed_address`` None: the port's only IPv4 address. Raises BadRequestError if the port does not have the address,
    or has none or several of which none is specified, ExternalGatewayForFloatingIPNotFoundError,
    FloatingIPPortAlreadyAssociatedError, FipInUseByPortForwardingError, PortHasPortForwardingError.
    """
    return update_floating_ip(floating, {"port": port}, fixed_address=fixed_address)


def disassociate(floating: FloatingIP) -> FloatingIP:
    """Disassociate a floating IP; its project keeps it."""
    return update_floating_ip(floating, {"port": None})


@when_broken_off
def delete_floating_ip(floating: FloatingIP, revision: int | None = None, *, with_forwardings: bool = False) -> None:
    """Delete a floating IP and release its address; ``with_forwardings``: even if it forwards ports.

    Raises FipInUseByPortForwardingError while it forwards ports, RevisionNumberConstraintFailedError.
    """
    with transaction.atomic():
        floating = records.lock_to_delete(floating, revision)
        if not with_forwardings and floating.port_forwardings.exists():
            raise FipInUseByPortForwardingError(f"Floating IP {floating.id} in use by Port Forwarding resources.")
        announce(floating, "delete", ports=[floating.fixed_port])
        key, own = floating.id, floating.port
        records.remove(floating)
        FixedIP.objects.filter(port=own).update(port=None, released_at=timezone.now())
        own.delete()
        mark(FLOATING_IP, [key])


def leave_ports(port_ids: Collection[uuid.UUID]) -> None:
    """Remove associations and forwardings of ports that are about to be deleted or to get other addresses.

    The caller has locked the ports, so that no association is added concurrently.
    """
    for floating in _ASSOCIATED(ports=port_ids):
        disassociate(floating)
    if forwards := _FORWARDS(ports=port_ids):
        _forget(PortForwarding.objects.filter(id__in=forwards))


_ASSOCIATED = Prepared(lambda ports: FloatingIP.objects.filter(Among("fixed_port_id", ports)), ports=Ids())
_FORWARDS = Prepared(
    lambda ports: PortForwarding.objects.filter(Among("internal_port_id", ports)).values_list("id", flat=True),
    ports=Ids(),
)


def leave_addresses(port: Port, gone: Collection[str]) -> None:
    """Remove the associations and forwardings of these addresses of a port, which the caller has locked."""
    for floating in FloatingIP.objects.filter(fixed_port=port, fixed_address__in=gone):
        disassociate(floating)
    _forget(PortForwarding.objects.filter(internal_port=port, internal_ip_address__in=gone))


def _forget(forwards: QuerySet[PortForwarding]) -> None:
    """Delete port forwardings, and remove their floating IPs from the routers."""
    forwarding = FloatingIP.objects.filter(port_forwardings__in=forwards).distinct().values("pk")
    floats = list(FloatingIP.objects.select_for_update(no_key=True).filter(pk__in=forwarding).order_by("id"))
    forwards.delete()
    for floating in floats:
        belong_to_none(floating)
        records.touch(floating)
        announce(floating)
    mark(FLOATING_IP, [floating.id for floating in floats])


def belong_to_none(floating: FloatingIP) -> None:
    """Remove a locked floating IP from its router if it has no forwardings."""
    if not floating.port_forwardings.exists():
        floating.router, floating.status = None, "DOWN"
        floating.save(update_fields=["router", "status"])


def release_floating_ips(instance_id: uuid.UUID) -> None:
    """Delete the floating IPs that were created for an instance."""
    for floating in _WITH_INSTANCE(instance_id=instance_id):
        delete_floating_ip(floating, with_forwardings=True)


_WITH_INSTANCE = Prepared(
    lambda instance_id: FloatingIP.objects.filter(with_instance=instance_id), instance_id=UUIDField()
)


def delete_disassociated(network: Network) -> None:
    """Delete the unassociated floating IPs of an external network that is about to be deleted."""
    for floating in unassociated().filter(network=network).order_by("id"):
        delete_floating_ip(floating)


@dataclass(frozen=True, slots=True)
class RoutedPort:
    """A port and the routers that connect its network to an external network, locked until the transaction ends."""

    port: Port
    network_id: uuid.UUID
    routers: tuple[Router, ...]

    def router_to(self, fixed_address: str) -> Router:
        """Return the router that connects an address of the port to the external network.

        The router with the subnet's gateway address is preferred, because guests answer through it; then a router of
        the port's project; then the oldest router. Raises ExternalGatewayForFloatingIPNotFoundError.
        """
        fixed = self.port.fixed_ips.select_related("subnet").filter(address=fixed_address).first()
        result: list[tuple[bool, bool, Router]] = []
        if fixed is not None:
            legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, fixed_ips__subnet=fixed.subnet)
            joined = set(legs.values_list("device_id", flat=True))
            there = FixedIP.objects.filter(subnet=fixed.subnet, address=fixed.subnet.gateway_ip)
            at_gateway = set(there.values_list("port__device_id", flat=True))
            result = [
                (router.id not in at_gateway, router.project_id != self.port.project_id, router)
                for router in self.routers
                if router.id in joined
            ]
        if not result:
            msg = (
                f"External network {self.network_id} is not reachable from subnet {fixed.subnet_id if fixed else None}."
                f" Therefore, cannot associate Port {self.port.id} with a Floating IP."
            )
            raise ExternalGatewayForFloatingIPNotFoundError(msg, field="port_id")
        return min(result, key=lambda each: (each[0], each[1], each[2].created_at))[2]


def lock_way(port: Port, network_id: uuid.UUID) -> RoutedPort:
    """Lock the routers that may connect a port to an external network, then the port.

    A transaction that removes an address of the port, or an interface or the gateway of a router, waits for these locks
    and then sees the new association. The order of locks is routers, port, floating IP. Raises RecordNotFoundError.
    """
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, network=port.network_id).values("device_id")
    routers = Router.objects.filter(id__in=legs, gateway_port__network_id=network_id)
    ids = list(routers.order_by("id").values_list("id", flat=True))
    locked = Router.objects.select_for_update(no_key=True, of=("self",)).filter(id__in=ids).order_by("id")
    keys = [router.id for router in locked]
    now = records.lock(port)
    return RoutedPort(now, network_id, tuple(routers.filter(id__in=keys)))


def _allocate(own: Port, subnets: Sequence[Subnet], address: str | None) -> FixedIP:
    if address is None:
        return addresses.allocate_free(own, subnets)
    address = str(addressing.parse_address(address, field="floating_ip_address"))
    subnet = next((each for each in subnets if addresses.contains(each, address)), None)
    if subnet is None or addressing.is_reserved(subnet, address):
        raise _bad(f"{address} is not a valid floating IP address of network {own.network_id}")
    return addresses.allocate(own, subnet, address)


def _associate(floating: FloatingIP, way: RoutedPort, fixed_address: str | None, *, called: str | None = None) -> None:
    """Associate a locked floating IP with a port.

    ``called``: the floating IP's name in error messages while it is being created.
    """
    port = way.port
    fixed = _fixed(port, fixed_address)
    if floating.port_forwardings.exists():
        msg = f"Floating IP {floating.id} in use by Port Forwarding resources."
        raise FipInUseByPortForwardingError(msg, field="port_id")
    if port.port_forwardings.exists():
        msg = f"Cannot associate floating IP to port {port.id} because it already has a Port Forwarding binding."
        raise PortHasPortForwardingError(msg, field="port_id")
    floating.router = way.router_to(fixed)
    floating.fixed_port, floating.fixed_address = port, fixed
    try:
        with transaction.atomic():
            floating.save(update_fields=["router", "fixed_port", "fixed_address"])
    except IntegrityError:
        msg = (
            f"Cannot associate {called or f'floating IP {floating.address} ({floating.id})'} with port {port.id} using "
            f"fixed IP {fixed}, as that fixed IP already has a floating IP on external network {floating.network_id}."
        )
        raise FloatingIPPortAlreadyAssociatedError(msg, field="port_id") from None
    Port.objects.filter(id=port.id).update(revision_number=F("revision_number") + 1)
    mark(FLOATING_IP, [floating.id])


def _fixed(port: Port, fixed_address: str | None) -> str:
    """Return the fixed address of a port for a floating IP: the requested one, otherwise the only one."""
    own = [row.address for row in port.fixed_ips.order_by("id") if ":" not in row.address]
    if fixed_address is not None:
        if fixed_address not in own:
            raise _bad(f"Port {port.id} does not have fixed ip {fixed_address}")
        return fixed_address
    if not own:
        raise _bad(f"Cannot add floating IP to port {port.id} that has no fixed IPv4 addresses")
    if len(own) > 1:
        raise _bad(
            f"Port {port.id} has multiple fixed IPv4 addresses. "
            "Must provide a specific IPv4 address when assigning a floating IP"
        )
    return own[0]


def _disassociate(floating: FloatingIP) -> None:
    if floating.fixed_port_id is None:
        return
    floating.router = floating.fixed_port = floating.fixed_address = None
    floating.status, floating.error = "DOWN", ""
    floating.save(update_fields=["router", "fixed_port", "fixed_address", "status", "error"])
    mark(FLOATING_IP, [floating.id])


def _bad(reason: str) -> BadRequestError:
    return BadRequestError(f"Bad floatingip request: {reason}.")
