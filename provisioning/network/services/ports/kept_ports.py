"""Restores lost records of ports that guests still have, unless this conflicts with other records.

The caller has locked the instance.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.network import addressing
from provisioning.network.models import FixedIP, Port, SecurityGroup, Subnet
from provisioning.network.records.marks import ports_changed
from provisioning.network.records.owners import COMPUTE
from provisioning.network.services.addressing import address_pairs, ipam
from provisioning.network.services.ports.insertion import InterfacePlan, insert_with
from provisioning.network.services.ports.interfaces import (
    MAX_ADDRESSES,
    MAX_INTERFACES,
    held_for,
    set_interface_status,
)
from provisioning.network.services.ports.ports import (
    addresses_held,
    groups_of,
    lock_subnets,
    quota_owner,
    usable_network,
)
from provisioning.quotas.services.sizes import grow, shrink


@dataclass(frozen=True)
class ReportedPort:
    """A port as its guest's host reports it."""

    id: uuid.UUID
    mac_address: str
    network_id: str
    addresses: Sequence[str] = ()
    port_security: bool = True
    group_ids: Sequence[uuid.UUID] = ()
    pairs: address_pairs.Pairs = field(default_factory=list)


def restore_port(
    instance_id: uuid.UUID, project_id: uuid.UUID, kept: ReportedPort, host: str, zone: str, dns_name: str = ""
) -> Port:
    """Restore a port of an instance's guest as the last interface in its record, and return the port.

    A port that has a record but no device is attached. A port without a record is created with the MAC address, the
    addresses and the security groups that the host reports, ignoring the quota. Groups that are not the project's are
    omitted; without any group, the port gets the default group. Raises InvalidInputError and ConflictError for a
    network that was deleted or that the project may not use, an address or a MAC address in use, and a port of another
    device.
    """
    with transaction.atomic():
        mine = Port.objects.filter(device_id=instance_id)
        if mine.count() >= MAX_INTERFACES:
            raise InvalidInputError(f"A server has at most {MAX_INTERFACES} network interfaces.")
        last = mine.aggregate(last=Max("device_index"))["last"]
        index = 0 if last is None else last + 1
        plan = InterfacePlan(instance_id, project_id, index, host, f"{COMPUTE}{zone}", dns_name)
        known = Port.objects.filter(pk=kept.id).first()
        if known is None:
            _create(plan, kept)
        elif known.mac_address.lower() != kept.mac_address:
            raise ConflictError(f"In the records, port {kept.id} has the MAC address {known.mac_address}.")
        else:
            plan.attach(str(kept.id))
        set_interface_status(kept.id, "ACTIVE")
        port = mine.select_related("network").get(pk=kept.id)
        ports_changed([port])
        return port


def _create(plan: InterfacePlan, kept: ReportedPort) -> None:
    owner = plan.instance_id
    ports, addresses = held_for(owner)
    needed = {"ports": ports + 1, "fixed_ips": addresses + len(kept.addresses)}
    grow(plan.project_id, owner, needed, refuse=False)
    network, subnets = usable_network(plan.project_id, kept.network_id, lock_subnets([kept.network_id]))
    port = Port(
        id=kept.id,
        network=network,
        project_id=plan.project_id,
        delete_with_device=True,
        port_security_enabled=kept.port_security,
        allowed_address_pairs=_pairs(kept),
        **plan.columns,
    )

    def fill() -> None:
        for place in _places(subnets, kept.addresses[:MAX_ADDRESSES]):
            ipam.allocate(port, place)

    insert_with(port, subnets, _groups(plan.project_id, kept), fill, kept.mac_address)
    ports, addresses = held_for(owner)
    grow(plan.project_id, owner, {"ports": ports, "fixed_ips": addresses}, refuse=False)
    shrink(owner, {"ports": ports, "fixed_ips": addresses})


def restore_addresses(port: Port, addresses: Sequence[str]) -> tuple[list[str], list[str]]:
    """Restore the addresses of a port that are free in its network, ignoring the quota.

    Returns the restored addresses and the refused ones.
    """
    with transaction.atomic():
        had = {addressing.usual_form(each.address) for each in port.fixed_ips.all()}
        missing = [each for each in map(addressing.usual_form, addresses) if each not in had]
        missing, refused = missing[: max(0, MAX_ADDRESSES - len(had))], missing[max(0, MAX_ADDRESSES - len(had)) :]
        if not missing:
            return [], refused
        more = addresses_held(port) + len(missing)
        grow(port.project_id, quota_owner(port), {"fixed_ips": more}, refuse=False)
        subnets, restored = lock_subnets([str(port.network_id)]).get(port.network_id, []), []
        for each in missing:
            try:
                places = _places(subnets, [each])
            except InvalidInputError:
                refused.append(each)
                continue
            restored += [ipam.allocate(port, place).address for place in places]
        shrink(quota_owner(port), {"fixed_ips": addresses_held(port)})
        if restored:
            set_interface_status(port.id, port.status)
            ports_changed([port])
        return restored, refused


def hold_addresses_back(network_id: uuid.UUID, addresses: Sequence[str]) -> None:
    """Hold addresses that a guest has without a record, for at least two audit intervals.

    Until then its host should have reported the addresses again. They are still allocated if no others are left, or on
    request.
    """
    subnets = list(Subnet.objects.filter(network_id=network_id))
    now = timezone.now()
    at = max(now, now + timedelta(seconds=2 * settings.AUDIT_INTERVAL - settings.ADDRESS_HOLD))
    for each in addresses[:MAX_ADDRESSES]:
        try:
            places = _places(subnets, [each])
        except InvalidInputError:
            continue
        for subnet, address, _ in places:
            number = addressing.number_of(subnet, address)
            free = FixedIP(port=None, subnet=subnet, address=address, number=number, released_at=at)
            FixedIP.every.bulk_create([free], ignore_conflicts=True)
            FixedIP.every.filter(subnet=subnet, number=number, port=None).update(released_at=at)


def _places(subnets: Sequence[Subnet], addresses: Sequence[str]) -> list[ipam.Place]:
    """Return the addresses as places, without those that guests derive from MAC addresses.

    Raises InvalidInputError.
    """
    places = [ipam.named_place(subnets, each) for each in addresses]
    return [place for place in places if not ipam.is_stateless(place.subnet)]


def _groups(project_id: uuid.UUID, kept: ReportedPort) -> list[SecurityGroup]:
    if not kept.port_security:
        return []
    rows = SecurityGroup.objects.filter(project_id=project_id, pk__in=kept.group_ids)
    return list(rows) or groups_of(project_id, ())


def _pairs(kept: ReportedPort) -> list[dict[str, str]]:
    try:
        return address_pairs.checked(kept.pairs, kept.mac_address)
    except InvalidInputError:
        return []
