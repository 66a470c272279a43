"""Attaches and detaches interfaces of an existing server, and changes their addresses and security groups.

The caller has locked the instance, so that only one change of its interfaces runs at a time.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Count, F, Max
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.network.addressing import usual_form
from provisioning.network.errors import SecurityGroupCannotBeAppliedError
from provisioning.network.models import FixedIP, Port, SecurityGroup
from provisioning.network.records import guest_ports
from provisioning.network.records.marks import ports_changed
from provisioning.network.records.owners import COMPUTE
from provisioning.network.selectors.interfaces import Interface
from provisioning.network.selectors.membership import check_one_kind
from provisioning.network.services.addressing import ipam
from provisioning.network.services.base import records
from provisioning.network.services.floating_ips.floating_ips import leave_addresses, leave_ports
from provisioning.network.services.ports.insertion import MAX_TRIES, InterfacePlan, Membership
from provisioning.network.services.ports.ports import (
    WITHOUT_DEVICE,
    addresses_held,
    groups_of,
    lock_ports,
    lock_subnets,
    quota_owner,
    remove,
    usable_network,
)
from provisioning.quotas.services import ledger
from provisioning.quotas.services.sizes import grow, shrink

MAX_INTERFACES = 8
"""Limit of a server's interfaces, the same as at its launch."""
MAX_ADDRESSES = 5
"""Limit of an interface's addresses, Neutron's ``max_fixed_ips_per_port``: protects networks that projects share."""


def note_lease(instance_id: uuid.UUID, port_id: str, address: str, since: datetime | None) -> bool:
    """Record the time at which a guest got an address by DHCP (None: the guest released it).

    Returns whether the record has changed: a host repeats its reports when its DHCP server restarts, and only the first
    report is recorded.
    """
    known = read_id(port_id)
    if known is None:
        return False
    rows = FixedIP.objects.filter(port_id=known, port__device_id=instance_id, address=address)
    return bool(rows.filter(leased_at__isnull=since is not None).update(leased_at=since))


def add_interface(
    instance_id: uuid.UUID, project_id: uuid.UUID, interface: Interface, host: str, zone: str, dns_name: str = ""
) -> Port:
    """Attach another port to an instance, after its existing ports, and return the port.

    Raises OverQuotaError, OutOfAddressesError, and InvalidInputError for records that were deleted or are in use since
    they were checked.
    """
    with transaction.atomic():
        mine = Port.objects.filter(device_id=instance_id)
        many = mine.count()
        if many >= MAX_INTERFACES:
            raise InvalidInputError(
                f"A server has at most {MAX_INTERFACES} network interfaces.", field="interfaceAttachment"
            )
        if interface["port_id"] is None:
            ports, addresses = held_for(instance_id)
            grow(project_id, instance_id, {"ports": ports + 1, "fixed_ips": addresses + 1})
        subnets = lock_subnets([interface["network_id"]] if interface["network_id"] else [])
        last = mine.aggregate(last=Max("device_index"))["last"]
        plan = InterfacePlan(
            instance_id, project_id, 0 if last is None else last + 1, host, f"compute:{zone}", dns_name
        )
        if interface["port_id"] is not None:
            plan.attach(interface["port_id"])
        else:
            anywhere = bool(interface.get("anywhere"))
            place = usable_network(project_id, interface["network_id"], subnets, anywhere=anywhere)
            plan.create(place, interface["fixed_ip"], groups_of(project_id, ()))
        port = mine.order_by("device_index").select_related("network").last()
        ports_changed([port])  # type: ignore[list-item]
        return port  # type: ignore[return-value]


def remove_interface(instance_id: uuid.UUID, port_id: uuid.UUID | str) -> int | None:
    """Detach a port from an instance; return its index among the interfaces, or None if the instance lacks it.

    A port that was created for the instance is deleted, and its addresses and quota are released. Any other port
    becomes free for another device.
    """
    with transaction.atomic():
        ports = lock_ports(instance_id)
        place = next((at for at, port in enumerate(ports) if str(port.id) == str(port_id)), None)
        if place is None:
            return None
        ports_changed([ports[place]], left=True)
        leave_ports([ports[place].id])
        if ports[place].delete_with_device:
            held, addresses = held_for(instance_id)
            shrink(instance_id, {"ports": held - 1, "fixed_ips": addresses - ports[place].fixed_ips.count()})
            remove([ports[place].id])
        else:
            _change(port_id, **WITHOUT_DEVICE)
        return place


def set_interface_status(port_id: uuid.UUID | str, status: str) -> None:
    """Set the status of an interface: ACTIVE, BUILD or DOWN."""
    _change(port_id, status=status)


def set_interface_leaving(port_id: uuid.UUID | str, *, leaving: bool) -> None:
    """Record whether an interface is being detached from its guest."""
    _change(port_id, leaving=leaving)


@when_broken_off
def set_delete_with_device(port: Port, *, value: bool) -> None:
    """Set whether an instance's interface is deleted with the instance.

    If it is, the interface counts in the instance's quota usage; otherwise it has its own usage. Raises
    ConflictError if no instance has the port, or if it is still being attached or detached.
    """
    with transaction.atomic():
        guest_ports.lock(port.device_id)
        row = records.lock(port)
        instance_id = row.device_id
        if instance_id is None or not row.device_owner.startswith(COMPUTE) or row.leaving or row.status == "BUILD":
            raise ConflictError(f"Port {row.id} is not an attached interface of an instance.")
        if row.delete_with_device is value:
            return
        ports, addresses = held_for(instance_id)
        own = row.fixed_ips.count()
        if value:
            ledger.release(row.id)
            grow(row.project_id, instance_id, {"ports": ports + 1, "fixed_ips": addresses + own})
        else:
            shrink(instance_id, {"ports": ports - 1, "fixed_ips": addresses - own})
            ledger.hold(row.project_id, row.id, {"ports": 1, "fixed_ips": own})
        _change(row.id, delete_with_device=value)


def add_address(instance_id: uuid.UUID, network_id: uuid.UUID) -> bool:
    """Allocate another address to an instance's first interface on a network; False if it has none there.

    Raises OverQuotaError, OutOfAddressesError, InvalidInputError for an interface with the maximum of addresses.
    """
    with transaction.atomic():
        interfaces = Port.objects.filter(device_id=instance_id, network_id=network_id, leaving=False)
        port = interfaces.select_related("network").order_by("device_index").first()
        if port is None:
            return False
        full = port.fixed_ips.count() >= MAX_ADDRESSES
        if not full:
            grow(port.project_id, quota_owner(port), {"fixed_ips": addresses_held(port) + 1})
        subnets = lock_subnets([str(network_id)])  # after the counters, as in every launch
        for tried in range(1, MAX_TRIES + 1):
            place = ipam.free_place(port.network, subnets.get(network_id, []), port.device_owner)
            if full:
                msg = f"Exceeded maximum amount of fixed IPs per port: {MAX_ADDRESSES}."
                raise InvalidInputError(msg, field="networkId")
            try:
                with transaction.atomic():
                    ipam.allocate(port, place)
            except IntegrityError:
                if tried == MAX_TRIES:
                    raise
            else:
                break
        _change(port.id)
        ports_changed([port])
    return True


def remove_address(instance_id: uuid.UUID, address: str) -> bool:
    """Release an address of an instance, with its quota; False if the instance does not have it."""
    with transaction.atomic():
        lock_ports(instance_id)
        mine = FixedIP.objects.select_related("port").filter(port__device_id=instance_id, address=usual_form(address))
        row = mine.order_by("id").first()
        port = row.port if row is not None else None
        if row is None or port is None:
            return False
        shrink(quota_owner(port), {"fixed_ips": addresses_held(port) - 1})
        leave_addresses(port, [row.address])
        ipam.release(FixedIP.objects.filter(pk=row.pk))
        _change(port.id)
        ports_changed([port])
    return True


def add_group(instance_id: uuid.UUID, group: SecurityGroup) -> bool:
    """Add every interface of an instance to a security group; False if it has no interfaces.

    Raises SecurityGroupCannotBeAppliedError if an interface has no port security, and SecurityGroupConflictError if the
    group is stateful and another group of an interface is not, or vice versa.
    """
    with transaction.atomic():
        if Port.objects.filter(device_id=instance_id, port_security_enabled=False).exists():
            raise SecurityGroupCannotBeAppliedError
        ports = list(Port.objects.filter(device_id=instance_id).values_list("id", flat=True))
        check_one_kind([group, *SecurityGroup.objects.filter(ports__in=ports)])
        rows = [Membership(port_id=port, securitygroup=group) for port in ports]
        Membership.objects.bulk_create(rows, ignore_conflicts=True)
        for port in ports:
            _change(port)
        _changed(ports)
    return bool(ports)


def remove_group(instance_id: uuid.UUID, group: SecurityGroup) -> bool:
    """Remove every interface of an instance from a security group; False if none was in it."""
    with transaction.atomic():
        members = Membership.objects.filter(port__device_id=instance_id, securitygroup=group)
        ports = list(members.values_list("port_id", flat=True))
        _changed(ports, left=True)
        members.delete()
        for port in ports:
            _change(port)
    return bool(ports)


def held_for(instance_id: uuid.UUID) -> tuple[int, int]:
    """Return the number of ports that were created for an instance, and the number of their addresses."""
    mine = Port.objects.filter(device_id=instance_id, delete_with_device=True)
    sums = mine.aggregate(ports=Count("pk", distinct=True), addresses=Count("fixed_ips"))
    return sums["ports"], sums["addresses"]


def _change(port_id: uuid.UUID | str, **columns: object) -> None:
    Port.objects.filter(pk=port_id).update(
        **columns, revision_number=F("revision_number") + 1, updated_at=timezone.now()
    )


def _changed(ids: Sequence[uuid.UUID], *, left: bool = False) -> None:
    ports_changed(list(Port.objects.filter(id__in=ids)), left=left)
