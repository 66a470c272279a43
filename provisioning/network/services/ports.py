"""Ports and their addresses: taken for an instance, bound to a host, given back."""

import uuid
from collections.abc import Mapping, Sequence

from django.db import IntegrityError, transaction
from django.db.models import CharField, DateTimeField, F, QuerySet, UUIDField
from django.utils import timezone

from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.prepared import Prepared, PreparedUpdate
from provisioning.network import addressing
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup, Subnet
from provisioning.network.services.security_groups import ensure_default_security_group
from provisioning.quotas.services import ledger
from provisioning.quotas.services.ledger import hold, reserve

Membership = Port.security_groups.through
"""Rows that put ports into security groups."""
OF_PORTS = ("ports", "fixed_ips")
"""What of the quota goes and comes with ports."""
MAX_TRIES = 8
"""Tries to insert one port; each collision means that another writer took the address or the MAC in between."""


def allocate(
    instance_id: uuid.UUID,
    project_id: uuid.UUID,
    requested: Sequence[Mapping[str, str | None]],
    security_groups: Sequence[str],
    host: str,
    az: str,
) -> list[Port]:
    """Give an instance its ports, all or none, and return them in the order of the interfaces.

    ``requested``: one ``{"network_id" | "port_id", "fixed_ip"}`` for each interface; ``security_groups``: ids, empty
    for the project's default.  Idempotent for an instance: ports it has are bound to ``host`` and returned.

    1. ports the instance has already: done; 2. quota for the new ports and their addresses, which a launch has reserved
    before; 3. the networks' subnets, locked in order of their ids where the database can; 4. interface by interface:
    the port that was given by id, or a new one with the lowest free or the wanted address.

    Raises OutOfAddressesError (fatal), InvalidInputError for ``networks`` or ``security_groups``, OverQuotaError,
    ConflictError when another run allocates for the same instance at this moment.
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
            plan = InterfacePlan(instance_id, project_id, index, host, f"compute:{az}")
            port_id = entry.get("port_id")
            if port_id:
                plan.attach(port_id)
            else:
                plan.create(usable_network(project_id, entry.get("network_id"), subnets), entry.get("fixed_ip"), groups)
        return _ports_of(instance_id)


def bind(ports: Sequence[Port], host: str) -> None:
    """Say which host the ports' guest is on; ports that are there already are left alone."""
    moved = [port for port in ports if port.host != host]
    if moved:
        Port.objects.filter(pk__in=[port.pk for port in moved]).update(
            host=host, revision_number=F("revision_number") + 1, updated_at=timezone.now()
        )
        for port in moved:
            port.host = host


def bind_ports(instance_id: uuid.UUID, host: str) -> list[Port]:
    """Bind the ports that an instance has to a host (empty: to none) and return them in the order of the interfaces."""
    ports = _ports_of(instance_id)
    bind(ports, host)
    return ports


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
    """Return what the interfaces make their instance hold of the quota: the ports that are made for it, each with one
    address.
    """
    made = sum(not entry.get("port_id") for entry in requested)
    return dict.fromkeys(OF_PORTS, made)


def quota_owner(port: Port) -> uuid.UUID:
    """Return what holds the quota of a port and its addresses: the instance that it goes with, or the port itself."""
    return port.device_id if port.delete_with_device and port.device_id else port.id


def addresses_held(port: Port) -> int:
    """Return how many addresses the owner of a port's quota has, on all ports that it holds the quota of."""
    if quota_owner(port) == port.id:
        return port.fixed_ips.count()
    return FixedIP.objects.filter(port__device_id=port.device_id, port__delete_with_device=True).count()


def release(instance_id: uuid.UUID, *, keep_quota: bool = False) -> None:
    """Give back everything an instance has here; idempotent.

    Ports made for it go, with their addresses; ports it was given by id are free for the next one and keep theirs.
    ``keep_quota``: the instance gets new ports on another host.
    """
    with transaction.atomic():
        if not keep_quota:
            ledger.release(instance_id, only=OF_PORTS)
        Port.objects.filter(device_id=instance_id, delete_with_device=True).delete()
        Port.objects.filter(device_id=instance_id).update(
            device_id=None,
            device_owner="",
            device_index=0,
            host="",
            status="DOWN",
            leaving=False,
            revision_number=F("revision_number") + 1,
            updated_at=timezone.now(),
        )


def create_port(project_id: uuid.UUID, network: Network, *, name: str = "", fixed_ip: str | None = None) -> Port:
    """Make a port that belongs to no device yet, with the project's default security group.

    Raises OverQuotaError, OutOfAddressesError, InvalidInputError.
    """
    port = Port(network=network, project_id=project_id, name=name)
    with transaction.atomic():
        hold(project_id, port.id, quota_of([{}]))
        subnets = lock_subnets([str(network.id)])
        group = ensure_default_security_group(project_id)
        chosen = subnets.get(network.id, [])
        return _insert(port, network, chosen, fixed_ip, [group])


def _ports_of(instance_id: uuid.UUID) -> list[Port]:
    """Return an instance's ports in the order of its interfaces."""
    return _OF_DEVICE(device_id=instance_id)


_OF_DEVICE = Prepared(
    lambda device_id: Port.objects.filter(device_id=device_id).select_related("network").order_by("device_index"),
    device_id=UUIDField(),
)


def lock_subnets(network_ids: Sequence[str]) -> dict[uuid.UUID, list[Subnet]]:
    """Return the subnets by network, locked until the transaction ends.

    Always in the same order, so that no two launches wait in a ring.
    The lock only keeps parallel launches from proposing the same address; exactness is the constraint's.
    """
    if not network_ids:
        return {}
    found: dict[uuid.UUID, list[Subnet]] = {}
    one = len(set(network_ids)) == 1
    rows = (
        _SUBNETS_OF_ONE(network_id=uuid.UUID(network_ids[0])) if one else _locked().filter(network_id__in=network_ids)
    )
    for subnet in rows:
        found.setdefault(subnet.network_id, []).append(subnet)
    for subnets in found.values():
        subnets.sort(key=lambda subnet: (subnet.created_at, subnet.id))
    return found


def _locked() -> QuerySet[Subnet]:
    return Subnet.objects.select_for_update(no_key=True, of=("self",)).select_related("network").order_by("id")


_SUBNETS_OF_ONE = Prepared(lambda network_id: _locked().filter(network_id=network_id), network_id=UUIDField())


def usable_network(
    project_id: uuid.UUID, network_id: str | None, subnets: Mapping[uuid.UUID, Sequence[Subnet]]
) -> tuple[Network, Sequence[Subnet]]:
    """Return a network the project may use, with its subnets; gone or never its own: the same sentence."""
    chosen = subnets.get(uuid.UUID(network_id), []) if network_id else []
    if not chosen or not (chosen[0].network.shared or chosen[0].network.project_id == project_id):
        raise InvalidInputError(f"Network {network_id} could not be found.", field="networks")
    return chosen[0].network, chosen


def groups_of(project_id: uuid.UUID, ids: Sequence[str]) -> list[SecurityGroup]:
    """Return the project's groups with these ids, or its default one."""
    if not ids:
        return [ensure_default_security_group(project_id)]
    found = {str(group.id): group for group in SecurityGroup.objects.filter(pk__in=ids, project_id=project_id)}
    missing = [identity for identity in ids if str(identity) not in found]
    if missing:
        raise InvalidInputError(f"Security group {missing[0]} not found.", field="security_groups")
    return list(found.values())


class InterfacePlan:
    """One interface of an instance that is being filled."""

    def __init__(self, instance_id: uuid.UUID, project_id: uuid.UUID, index: int, host: str, owner: str) -> None:
        self.instance_id, self.project_id = instance_id, project_id
        self.columns = {"device_id": instance_id, "device_index": index, "device_owner": owner, "host": host}

    def attach(self, port_id: str) -> None:
        """Take a port by id: the project's own, and nobody's yet."""
        mine = Port.objects.filter(pk=port_id, project_id=self.project_id, delete_with_device=False)
        taken = mine.filter(device_id=None).update(
            **self.columns, status="BUILD", revision_number=F("revision_number") + 1, updated_at=timezone.now()
        )
        if not taken:
            msg = f"Port {port_id} is still in use." if mine.exists() else f"Port id {port_id} could not be found."
            raise InvalidInputError(msg, field="networks")

    def create(
        self,
        place: tuple[Network, Sequence[Subnet]],
        fixed_ip: str | None,
        groups: Sequence[SecurityGroup],
    ) -> None:
        """Make a port that goes when the instance goes."""
        network, subnets = place
        port = Port(
            network=network, project_id=self.project_id, status="BUILD", delete_with_device=True, **self.columns
        )
        try:
            _insert(port, network, subnets, fixed_ip, groups)
        except IntegrityError as error:
            raise ConflictError(f"The ports of instance {self.instance_id} are being allocated.") from error


def _insert(
    port: Port, network: Network, subnets: Sequence[Subnet], fixed_ip: str | None, groups: Sequence[SecurityGroup]
) -> Port:
    """Insert a port with one address; a collision is tried again with another MAC and the next free address."""
    attempt = 0
    while True:
        attempt += 1
        subnet, number = _wanted(subnets, fixed_ip) if fixed_ip else free_address(network, subnets)
        port.mac_address = addressing.random_mac()
        try:
            with transaction.atomic():
                port.save(force_insert=True)
                FixedIP.objects.create(port=port, subnet=subnet, number=number, address=addressing.as_text(number))
                Membership.objects.bulk_create([Membership(port=port, securitygroup=group) for group in groups])
        except IntegrityError:
            if attempt == MAX_TRIES:
                raise
        else:
            return port


def free_address(network: Network, subnets: Sequence[Subnet]) -> tuple[Subnet, int]:
    """Return the lowest free address of the first subnet that has one."""
    for subnet in subnets:
        number = addressing.lowest_free(subnet)
        if number is not None:
            return subnet, number
    raise OutOfAddressesError(f"No more IP addresses available on network {network.id}.", field="networks")


def _wanted(subnets: Sequence[Subnet], fixed_ip: str) -> tuple[Subnet, int]:
    """Return the address that was asked for, or say why it cannot be had."""
    subnet, number = addressing.place_of(subnets, fixed_ip)
    if FixedIP.objects.filter(subnet=subnet, number=number).exists():
        raise InvalidInputError(f"Fixed IP address {fixed_ip} is already in use.", field="networks")
    return subnet, number
