"""Ports and addresses of instances: allocated, bound to a host, and released."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import CharField, DateTimeField, F, QuerySet, UUIDField, Value
from django.utils import timezone

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared, PreparedDelete, PreparedUpdate
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.network.models import FixedIP, Network, Port, RbacPolicy, SecurityGroup, Subnet
from provisioning.network.records.marks import ports_changed
from provisioning.network.selectors.membership import check_one_kind
from provisioning.network.selectors.visibility import is_usable, shared_with
from provisioning.network.services.addressing import ipam
from provisioning.network.services.floating_ips.floating_ips import leave_ports, release_floating_ips
from provisioning.network.services.ports.insertion import InterfacePlan, Membership
from provisioning.network.services.security.security_groups import ensure_default_security_group
from provisioning.quotas.services import ledger, sizes
from provisioning.quotas.services.ledger import reserve

OF_PORTS = ("ports", "fixed_ips")
"""Quota resources that ports use."""


def allocate(
    instance_id: uuid.UUID,
    project_id: uuid.UUID,
    requested: Sequence[Mapping[str, str | None]],
    security_groups: Sequence[str],
    host: str,
    az: str,
    *,
    dns_name: str = "",
) -> list[Port]:
    """Allocate an instance's ports, all or none, and return them in the order of its interfaces.

    ``requested``: one ``{"network_id" | "port_id", "fixed_ip"}`` for each interface; ``security_groups``: ids, empty
    for the project's default; ``dns_name``: the guest's host name.

    1. If the instance already has ports, bind them to ``host`` and return them.
    2. Reserve the quota for the new ports and their addresses, unless a launch has reserved it.
    3. Lock the networks' subnets in the order of their ids.
    4. For each interface, attach the port with the given id, or create a port with the requested or lowest free
       address.

    Raises OutOfAddressesError (fatal), InvalidInputError for ``networks`` or ``security_groups``, OverQuotaError,
    ConflictError if another run allocates for the same instance concurrently.
    """
    with transaction.atomic():
        existing = _ports_of(instance_id)
        if existing:
            bind(existing, host)
            return existing
        reserve(project_id, instance_id, quota_of(requested))
        subnets = lock_subnets([chosen for entry in requested if (chosen := entry.get("network_id"))])
        groups = groups_of(project_id, security_groups)
        for index, entry in enumerate(requested):
            plan = InterfacePlan(instance_id, project_id, index, host, f"compute:{az}", dns_name)
            port_id = entry.get("port_id")
            if port_id:
                plan.attach(port_id)
            else:
                anywhere = bool(entry.get("anywhere"))
                place = usable_network(project_id, entry.get("network_id"), subnets, anywhere=anywhere)
                plan.create(_on_subnet(place, entry.get("subnet_id")), entry.get("fixed_ip"), groups)
        made = _ports_of(instance_id)
        _hold_addresses(project_id, instance_id, made, [subnet for each in subnets.values() for subnet in each])
        ports_changed(made)
        return made


def _on_subnet(place: tuple[Network, Sequence[Subnet]], subnet_id: str | None) -> tuple[Network, Sequence[Subnet]]:
    """Restrict an interface to the requested subnet, if any. Raises InvalidInputError if the subnet was deleted."""
    network, subnets = place
    if not subnet_id:
        return place
    chosen = [subnet for subnet in subnets if str(subnet.id) == subnet_id]
    if not chosen:
        raise InvalidInputError(f"Subnet {subnet_id} could not be found.", field="networks")
    return network, chosen


def bind(ports: Sequence[Port], host: str) -> None:
    """Bind ports only to the host of their guest. Ports that are already bound to it do not change."""
    _bind(ports, {"host": host, "second_host": ""})


def bind_second(instance_id: uuid.UUID, host: str) -> None:
    """Bind an instance's ports also to the host that its guest is being migrated to; empty: to no second host."""
    _bind(_ports_of(instance_id), {"second_host": host})


def _bind(ports: Sequence[Port], to: Mapping[str, str]) -> None:
    """Change the hosts of ports; unchanged ports are ignored."""
    moved = [port for port in ports if any(getattr(port, name) != host for name, host in to.items())]
    if not moved:
        return
    ports_changed(moved, left=True)
    Port.objects.filter(pk__in=[port.pk for port in moved]).update(
        **to, revision_number=F("revision_number") + 1, updated_at=timezone.now()
    )
    for port in moved:
        for name, host in to.items():
            setattr(port, name, host)
    ports_changed(moved)


def bind_ports(instance_id: uuid.UUID, host: str) -> list[Port]:
    """Bind an instance's ports to a host (empty: to none) and return them in the order of its interfaces."""
    ports = _ports_of(instance_id)
    bind(ports, host)
    return ports


def set_dns_name(instance_id: uuid.UUID, name: str) -> None:
    """Change the host name on every port of an instance."""
    renamed = Port.objects.filter(device_id=instance_id).exclude(dns_name=name)
    renamed.update(dns_name=name, revision_number=F("revision_number") + 1, updated_at=timezone.now())
    ports_changed(_ports_of(instance_id))


def set_ports_status(instance_id: uuid.UUID, status: str) -> None:
    """Set ACTIVE, BUILD or DOWN on every port of an instance."""
    _SET_STATUS(device_id=instance_id, status=status, now=timezone.now())


_SET_STATUS = PreparedUpdate(
    lambda device_id, status, now: (
        Port.objects.filter(device_id=device_id).exclude(status=status),
        {"status": status, "revision_number": F("revision_number") + 1, "updated_at": now},
    ),
    device_id=UUIDField(),
    status=CharField(),
    now=DateTimeField(),
)


def quota_of(requested: Sequence[Mapping[str, str | None]]) -> dict[str, int]:
    """Return the quota usage of an instance with these interfaces: the ports created for it, each with one address."""
    made = sum(not entry.get("port_id") for entry in requested)
    return dict.fromkeys(OF_PORTS, made)


def quota_owner(port: Port) -> uuid.UUID:
    """Return the owner of the quota usage of a port and its addresses.

    This is the instance that the port is deleted with, otherwise the port itself.
    """
    return port.device_id if port.delete_with_device and port.device_id else port.id


def addresses_held(port: Port) -> int:
    """Return the number of addresses in the quota usage that includes the port (``quota_owner``)."""
    if quota_owner(port) == port.id:
        return port.fixed_ips.count()
    return FixedIP.objects.filter(port__device_id=port.device_id, port__delete_with_device=True).count()


WITHOUT_DEVICE: dict[str, Any] = {
    "device_id": None,
    "device_owner": "",
    "device_index": 0,
    "dns_name": "",
    "host": "",
    "second_host": "",
    "status": "DOWN",
    "leaving": False,
}
"""Columns of a port that becomes free for another device."""


def release(instance_id: uuid.UUID, *, keep_quota: bool = False) -> None:
    """Release all ports of an instance; idempotent.

    Ports created for it are deleted and their addresses are released. Ports attached by id become free and keep their
    addresses. ``keep_quota``: keep the quota and the floating IPs, because the instance gets new ports on another host.
    """
    with transaction.atomic(savepoint=False):
        leaving = lock_ports(instance_id)
        if not keep_quota:
            ledger.release(instance_id, only=OF_PORTS)
        ports_changed(leaving, left=True)
        leave_ports([port.id for port in leaving])
        if not keep_quota:
            release_floating_ips(instance_id)
        remove([port.id for port in leaving if port.delete_with_device])
        if any(not port.delete_with_device for port in leaving):
            Port.objects.filter(device_id=instance_id).update(
                **WITHOUT_DEVICE, revision_number=F("revision_number") + 1, updated_at=timezone.now()
            )


def remove(port_ids: Sequence[uuid.UUID]) -> None:
    """Delete locked ports of guests that ``leave_ports`` has prepared, and hold their addresses for a while."""
    if port_ids:
        ipam.release_of_ports(port_ids)
        _LEAVE_GROUPS(ids=port_ids)
        _DELETE(ids=port_ids)


_LEAVE_GROUPS = PreparedDelete(lambda ids: Membership.objects.filter(Among("port_id", ids)), ids=Ids())
_DELETE = PreparedDelete(lambda ids: Port.objects.filter(Among("id", ids)), ids=Ids())


def _hold_addresses(
    project_id: uuid.UUID, owner_id: uuid.UUID, ports: Sequence[Port], subnets: Sequence[Subnet]
) -> None:
    """Set the owner's quota usage to the number of addresses that the ports got: with IPv6, a port can have several."""
    if any(subnet.ip_version == 6 for subnet in subnets):
        many = FixedIP.objects.filter(port__in=[port.pk for port in ports]).count()
        sizes.grow(project_id, owner_id, {"fixed_ips": many})
        sizes.shrink(owner_id, {"fixed_ips": many})


def lock_ports(instance_id: uuid.UUID) -> list[Port]:
    """Lock the ports of an instance, and return them in the order of its interfaces.

    Callers must do this before they lock a quota counter. No floating IP can be associated with the ports until the
    transaction ends.
    """
    return sorted(_LOCKED(device_id=instance_id), key=lambda port: port.device_index)


def _locked_ports(device_id: Value) -> QuerySet[Port]:
    return Port.objects.select_for_update(no_key=True).filter(device_id=device_id).order_by("id")


_LOCKED = Prepared(_locked_ports, device_id=UUIDField())


def _ports_of(instance_id: uuid.UUID) -> list[Port]:
    """Return an instance's ports in the order of its interfaces."""
    return _OF_DEVICE(device_id=instance_id)


_OF_DEVICE = Prepared(
    lambda device_id: Port.objects.filter(device_id=device_id).select_related("network").order_by("device_index"),
    device_id=UUIDField(),
)


def lock_subnets(network_ids: Sequence[str]) -> dict[uuid.UUID, list[Subnet]]:
    """Return the subnets by network, locked until the transaction ends.

    They are always locked in the same order, so that launches do not deadlock. The lock only keeps parallel launches
    from proposing the same address; the constraint ensures uniqueness.
    """
    if not network_ids:
        return {}
    result: dict[uuid.UUID, list[Subnet]] = {}
    one = len(set(network_ids)) == 1
    rows = (
        _SUBNETS_OF_ONE(network_id=uuid.UUID(network_ids[0])) if one else _locked().filter(network_id__in=network_ids)
    )
    for subnet in rows:
        result.setdefault(subnet.network_id, []).append(subnet)
    for subnets in result.values():
        subnets.sort(key=lambda subnet: (subnet.created_at, subnet.id))
    return result


def _locked() -> QuerySet[Subnet]:
    return Subnet.objects.select_for_update(no_key=True, of=("self",)).select_related("network").order_by("id")


_SUBNETS_OF_ONE = Prepared(lambda network_id: _locked().filter(network_id=network_id), network_id=UUIDField())


def usable_network(
    project_id: uuid.UUID,
    network_id: str | None,
    subnets: Mapping[uuid.UUID, Sequence[Subnet]],
    *,
    anywhere: bool = False,
) -> tuple[Network, Sequence[Subnet]]:
    """Return a network that the project may use, with its subnets.

    Raises the same InvalidInputError for a network that does not exist and one that the project may not use.
    ``anywhere``: allow every network, because the caller's rights allow it.
    """
    chosen = subnets.get(uuid.UUID(network_id), []) if network_id else []
    network = chosen[0].network if chosen else Network.objects.filter(id=read_id(network_id) or NOBODY).first()
    if network is None or not (anywhere or _may_use(project_id, network)):
        raise InvalidInputError(f"Network {network_id} could not be found.", field="networks")
    if not chosen:
        msg = f"Network {network_id} requires a subnet in order to boot instances on."
        raise InvalidInputError(msg, field="networks")
    return network, chosen


def _may_use(project_id: uuid.UUID, network: Network) -> bool:
    if network.shared or network.project_id == project_id:
        return True
    return is_usable(project_id, network.pk)


def groups_of(project_id: uuid.UUID, ids: Sequence[str]) -> list[SecurityGroup]:
    """Return the groups with these ids, the project's own and those shared with it; without ids the default group."""
    if not ids:
        return [ensure_default_security_group(project_id)]
    groups = {
        str(group.id): group
        for group in _GROUPS(project_id=project_id, ids=[read_id(str(key)) or NOBODY for key in ids])
    }
    missing = [identity for identity in ids if str(identity) not in groups]
    if missing:
        seen = shared_with(project_id.hex, "security_group") | shared_with(RbacPolicy.EVERYBODY, "security_group")
        groups |= {str(group.id): group for group in SecurityGroup.objects.filter(seen, pk__in=missing)}
        missing = [identity for identity in missing if str(identity) not in groups]
    if missing:
        raise InvalidInputError(f"Security group {missing[0]} not found.", field="security_groups")
    check_one_kind(groups.values())
    return list(groups.values())


_GROUPS = Prepared(
    lambda project_id, ids: SecurityGroup.objects.filter(Among("id", ids), project_id=project_id),
    project_id=UUIDField(),
    ids=Ids(),
)
