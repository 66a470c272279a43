"""Unused rows of networks: orphaned ports, addresses that are not freed, and RBAC policies of missing objects."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, DateTimeField, Exists, Model, OuterRef, Q, QuerySet
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding, check
from provisioning.doctor.repairs import alone
from provisioning.hosts.models import Host
from provisioning.network import services as network
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, PortForwarding, RbacPolicy, Router
from provisioning.network.records import owners
from provisioning.network.services.addressing import addresses, ipam
from provisioning.network.services.base import sharing
from provisioning.network.services.composed.rbac_policies import MODELS

PATIENCE = timedelta(minutes=2)
"""Grace period after the end of an address's hold time; a periodic job frees it within seconds."""

_ID = OuterRef("device_id")
_GONE: Mapping[str, tuple[str, Q]] = {
    owners.ROUTER_INTERFACE: ("router", ~Q(Exists(Router.objects.filter(id=_ID)))),
    owners.ROUTER_GATEWAY: ("router", ~Q(Exists(Router.objects.filter(id=_ID, gateway_port=OuterRef("id"))))),
    owners.FLOATING_IP: ("floating IP", ~Q(Exists(FloatingIP.objects.filter(id=_ID, port=OuterRef("id"))))),
    owners.AGENT_GATEWAY: ("host", ~Q(Exists(Host.objects.filter(id=_ID)))),
    owners.DHCP: ("network with DHCP", ~Q(Exists(Network.objects.filter(id=_ID, subnets__enable_dhcp=True)))),
}
"""Device owner → the noun for findings, and the condition under which the owner is missing."""


# ----- ports and addresses --------------------------------------------------------------------------------------------


@check("network_ports")
def ports_of_nothing() -> Iterator[Finding]:
    """Find ports that were created for routers, floating IPs, hosts or DHCP networks that no longer exist."""
    for port in _unowned().annotate(many=Count("fixed_ips")).order_by("id"):
        whose, _ = _GONE[port.device_owner]
        sentence = f"It belongs to the {whose} {port.device_id}, which does not exist. Its addresses: {port.many}."
        remedy = "Delete it, and release its addresses."
        yield Finding("error", f"port {port.id}", sentence, remedy, alone(_free_address(port.id)))


def _unowned() -> QuerySet[Port]:
    gone = Q()
    for owner, (_, missing) in _GONE.items():
        gone |= Q(missing, device_owner=owner)
    return Port.objects.filter(gone, device_id__isnull=False)


def _free_address(port_id: uuid.UUID) -> Callable[[], str | None]:
    return lambda: "Deleted." if addresses.delete_ports(_unowned().filter(id=port_id)) else None


@check("held_addresses")
def held_for_too_long() -> Iterator[Finding]:
    """Find addresses without a port that are held past their hold time, and addresses that two ports have."""
    if LATE(before=_ended()):
        late = _late(_ended()).count()
        sentence = f"Addresses without a port that should be free by now: {late}. They cannot be allocated."
        yield Finding("error", "addresses", sentence, "Free them.", _free, "late")
    for row in TWICE():
        sentence = f"The address {row['address']} is allocated {row['many']} times. Remove it from all ports but one."
        yield Finding("error", f"subnet {row['subnet_id']}", sentence)


def _ended() -> datetime:
    """Return the cutoff: addresses that were released before this time should have been deleted."""
    return timezone.now() - timedelta(seconds=settings.ADDRESS_HOLD) - PATIENCE


def _late(ended: Any) -> QuerySet[FixedIP]:
    return FixedIP.every.filter(Q(released_at__lte=ended) | Q(released_at=None), port=None)


LATE = Prepared(lambda before: _late(before).values_list("id")[:1], before=DateTimeField())
TWICE = Prepared(
    lambda: (
        FixedIP.every.values("subnet_id", "address")
        .annotate(many=Count("id"))
        .filter(many__gt=1)
        .order_by("subnet_id", "address")
    )
)


def _free() -> str | None:
    many = ipam.forget_released() if LATE(before=_ended()) else 0
    return f"Freed: {many}." if many else None


# ----- routers and floating IPs ---------------------------------------------------------------------------------------


@check("floating_ips")
def wrong_associations() -> Iterator[Finding]:
    """Find floating IPs and port forwardings whose target does not match the records, and floating IPs of deleted
    servers.
    """
    for floating in _astray().order_by("id"):
        sentence = f"No router connects {floating.address} with {floating.fixed_address or 'a fixed address'}."
        repair = alone(_astray_no_more(floating.id))
        yield Finding("error", f"floating IP {floating.id}", sentence, "Disassociate it.", repair)
    for row in _strayed_forwardings().select_related("floating_ip").order_by("id"):
        sentence = (
            f"Port {row.external_port_first} of {row.floating_ip.address} is forwarded to {row.internal_ip_address},"
            f" which the port {row.internal_port_id} does not have."
        )
        yield Finding("error", f"port forwarding {row.id}", sentence, "Delete it.", alone(_no_forwarding(row.id)))
    for floating in _outlived().order_by("id"):
        sentence = f"{floating.address} was created for the server {floating.with_instance}, which was deleted."
        remedy = "Delete it."
        yield Finding("error", f"floating IP {floating.id}", sentence, remedy, alone(_no_floating_ip(floating.id)))


def _astray() -> QuerySet[FloatingIP]:
    """Return floating IPs whose port does not have their fixed address, or whose router does not connect them."""
    there = FixedIP.objects.filter(port=OuterRef("fixed_port_id"), address=OuterRef("fixed_address"))
    legs = Port.objects.filter(device_owner=owners.ROUTER_INTERFACE, device_id=OuterRef("router_id"))
    joined = legs.filter(network_id=OuterRef("fixed_port__network_id"))
    outside = Router.objects.filter(id=OuterRef("router_id"), gateway_port__network_id=OuterRef("network_id"))
    leading = FloatingIP.objects.filter(fixed_port__isnull=False).select_related("network")
    return leading.exclude(Exists(there) & Exists(joined) & Exists(outside))


def _astray_no_more(key: uuid.UUID) -> Callable[[], str | None]:
    def work() -> str | None:
        floating = _astray().filter(id=key).first()
        if floating is None:
            return None
        network.disassociate(floating)
        return "It was disassociated."

    return work


def _strayed_forwardings() -> QuerySet[PortForwarding]:
    there = FixedIP.objects.filter(port=OuterRef("internal_port_id"), address=OuterRef("internal_ip_address"))
    return PortForwarding.objects.exclude(Exists(there))


def _no_forwarding(key: uuid.UUID) -> Callable[[], str | None]:
    def work() -> str | None:
        row = _strayed_forwardings().filter(id=key).first()
        if row is None:
            return None
        network.delete_port_forwarding(row)
        return "It was deleted."

    return work


def _outlived() -> QuerySet[FloatingIP]:
    alive = Instance.objects.filter(id=OuterRef("with_instance")).exclude(vm_state=VmState.DELETED)
    held = Allocation.objects.filter(instance_id=OuterRef("with_instance"))
    return FloatingIP.objects.filter(with_instance__isnull=False).exclude(Exists(alive) | Exists(held))


def _no_floating_ip(key: uuid.UUID) -> Callable[[], str | None]:
    def work() -> str | None:
        floating = _outlived().filter(id=key).first()
        if floating is None:
            return None
        network.delete_floating_ip(floating, with_forwardings=True)
        return "It was deleted."

    return work


# ----- policies -------------------------------------------------------------------------------------------------------


@check("rbac_policies")
def sharing_nothing() -> Iterator[Finding]:
    """Find RBAC policies of objects that do not exist."""
    for kind, model in MODELS.items():
        rows = RbacPolicy.objects.filter(_sharing_nothing(model), object_type=kind)
        for policy in rows.order_by("id"):
            sentence = f"It shares the {kind} {policy.object_id}, which does not exist."
            repair = alone(_removed(rows.filter(id=policy.id)))
            yield Finding("warning", f"RBAC policy {policy.id}", sentence, "Delete it.", repair)


def _sharing_nothing(model: type[Model]) -> Q:
    return ~Q(Exists(model._default_manager.filter(pk=OuterRef("object_id"))))


def _removed(rows: QuerySet[RbacPolicy]) -> Callable[[], str | None]:
    return lambda: "Deleted." if sharing.end(rows.all()) else None
