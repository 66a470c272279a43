"""Port forwardings: single ports of a floating IP that are forwarded to ports of guests."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from django.db import transaction

from compute_agent.contract.network import FLOATING_IP
from provisioning.common.database.retry import when_broken_off
from provisioning.network.errors import (
    BadRequestError,
    ExternalGatewayForFloatingIPNotFoundError,
    FloatingIPPortAlreadyAssociatedError,
    PortHasBindingFloatingIPError,
)
from provisioning.network.models import FloatingIP, Port, PortForwarding
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import mark
from provisioning.network.services.base import records
from provisioning.network.services.floating_ips.floating_ips import RoutedPort, belong_to_none, lock_way

PROTOCOLS = ("tcp", "udp", "icmp", "dccp", "sctp")
MOST_ELEMENTS = 1000
"""Limit of a floating IP's entries in hosts' tables.

A forwarding has one entry; a range that is forwarded to other port numbers has an entry for each port.
"""
Ports = tuple[int, int]
"""The first and the last port of a range."""


@dataclass(frozen=True, slots=True)
class ForwardingRequest:
    """A forwarding that a caller requests, with validated values."""

    protocol: str
    external: Ports
    internal_port: Port
    internal_address: str
    internal: Ports
    description: str = ""


@when_broken_off
def create_port_forwarding(floating: FloatingIP, request: ForwardingRequest) -> PortForwarding:
    """Create a forwarding.

    Raises BadRequestError, also if no router connects the port to the floating IP, PortHasBindingFloatingIPError,
    FloatingIPPortAlreadyAssociatedError.
    """
    with transaction.atomic():
        way = lock_way(request.internal_port, floating.network_id)
        floating = records.lock(floating)
        row = PortForwarding(floating_ip=floating)
        _check(floating, row, request)
        if floating.fixed_port_id is not None:
            msg = (
                f"Cannot associate floating IP {floating.address} ({floating.id}) with port {request.internal_port.id} "
                f"using fixed IP {request.internal_address}, as that fixed IP already has a floating IP on external "
                f"network {floating.network_id}."
            )
            raise FloatingIPPortAlreadyAssociatedError(msg)
        _write(floating, row, request, way)
    return row


@when_broken_off
def update_port_forwarding(row: PortForwarding, changes: Mapping[str, object]) -> PortForwarding:
    """Update a forwarding; ``changes`` are fields of ``ForwardingRequest``.

    Raises the errors of ``create_port_forwarding``.
    """
    there = row.internal_port
    port = changes.get("internal_port", there)
    with transaction.atomic():
        way = lock_way(port if isinstance(port, Port) else there, row.floating_ip.network_id)
        floating = records.lock(row.floating_ip)
        row = floating.port_forwardings.get(pk=row.pk)
        request = ForwardingRequest(
            row.protocol,
            (row.external_port_first, row.external_port_last),
            row.internal_port,
            row.internal_ip_address,
            (row.internal_port_first, row.internal_port_last),
            row.description,
        )
        request = replace(request, **{**changes, "internal_port": way.port})  # type: ignore[arg-type]
        _check(floating, row, request)
        _write(floating, row, request, way)
    return row


@when_broken_off
def delete_port_forwarding(row: PortForwarding) -> None:
    """Delete a forwarding; with the last one the floating IP is removed from its router."""
    with transaction.atomic():
        floating = records.lock(row.floating_ip)
        row.delete()
        belong_to_none(floating)
        _changed(floating)


def _write(floating: FloatingIP, row: PortForwarding, request: ForwardingRequest, way: RoutedPort) -> None:
    """Write a validated forwarding of a locked floating IP; ``way``: the locked internal port and its routers."""
    try:
        router = way.router_to(request.internal_address)
    except ExternalGatewayForFloatingIPNotFoundError as error:
        raise BadRequestError(f"Bad port_forwarding request: {error.message}") from error
    if floating.router_id not in {None, router.id}:
        raise BadRequestError(
            f"Bad port_forwarding request: Floating IP {floating.id} forwards through router {floating.router_id} only."
        )
    row.protocol, row.description = request.protocol, request.description
    row.external_port_first, row.external_port_last = request.external
    row.internal_port, row.internal_ip_address = request.internal_port, request.internal_address
    row.internal_port_first, row.internal_port_last = request.internal
    row.save()
    if floating.router_id is None:
        floating.router = router
        floating.save(update_fields=["router"])
    _changed(floating)


def _check(floating: FloatingIP, row: PortForwarding, request: ForwardingRequest) -> None:
    if request.protocol not in PROTOCOLS:
        raise BadRequestError(f"Bad port_forwarding request: protocol {request.protocol[:32]} is not supported.")
    for first, last in (request.external, request.internal):
        if not 1 <= first <= last <= 65535:
            raise BadRequestError(f"Bad port_forwarding request: Invalid value for port range {first}:{last}.")
    spans = [last - first for first, last in (request.external, request.internal)]
    if spans[0] != spans[1] and spans[1] != 0:
        raise BadRequestError(
            "Bad port_forwarding request: The internal port range must be as long as the external one, or one port."
        )
    if not request.internal_port.fixed_ips.filter(address=request.internal_address).exists():
        raise BadRequestError(
            f"Bad port_forwarding request: Port {request.internal_port.id} does not have fixed ip "
            f"{request.internal_address}."
        )
    others = floating.port_forwardings.filter(protocol=request.protocol).exclude(pk=row.pk)
    first, last = request.external
    _check_size(floating, row, request)
    other = others.filter(external_port_first__lte=last, external_port_last__gte=first).first()
    if other is not None:
        raise _collision("external", other, request.external)
    _check_inside(row, request)


def _check_inside(row: PortForwarding, request: ForwardingRequest) -> None:
    """Reject an internal port that another external port is already forwarded to, and a port with its own
    floating IP.
    """
    port = request.internal_port
    bound = port.floating_ips.first()
    if bound is not None and row.internal_port_id != port.id:
        msg = (
            f"Cannot create port forwarding to floating IP {bound.address} ({bound.id}) with port {port.id} using "
            f"fixed IP {request.internal_address}, as that port already has a binding floating IP."
        )
        raise PortHasBindingFloatingIPError(msg, field="internal_port_id")
    same = port.port_forwardings.filter(protocol=request.protocol, internal_ip_address=request.internal_address)
    first, last = request.internal
    other = same.exclude(pk=row.pk).filter(internal_port_first__lte=last, internal_port_last__gte=first).first()
    if other is not None:
        raise _collision("internal", other, request.internal)


def _collision(side: str, there: PortForwarding, requested: Ports) -> BadRequestError:
    first, last = getattr(there, f"{side}_port_first"), getattr(there, f"{side}_port_last")
    return BadRequestError(
        f"Bad port_forwarding request: There is a port collision with the {side}_port_range. The following ranges "
        f"collide: {first}:{last} and {requested[0]}:{requested[1]}.",
        field=f"{side}_port",
    )


def _check_size(floating: FloatingIP, row: PortForwarding, request: ForwardingRequest) -> None:
    """Reject port forwardings with more filter elements than hosts can load quickly."""
    names = ("external_port_first", "external_port_last", "internal_port_first", "internal_port_last")
    others = floating.port_forwardings.exclude(pk=row.pk).values_list(*names)
    elements = sum(_elements((outer, end), (inner, last)) for outer, end, inner, last in others)
    if elements + _elements(request.external, request.internal) > MOST_ELEMENTS:
        raise BadRequestError(
            f"Bad port_forwarding request: Floating IP {floating.id} can have {MOST_ELEMENTS} port forwardings; "
            "of a range that is forwarded to other ports, each port counts as one."
        )


def _elements(external: Ports, internal: Ports) -> int:
    moved = external != internal and internal[0] != internal[1]
    return external[1] - external[0] + 1 if moved else 1


def _changed(floating: FloatingIP) -> None:
    records.touch(floating)
    mark(FLOATING_IP, [floating.id])
    announce(floating)
