"""Creates, updates and deletes networks."""

import secrets
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, Unpack

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import CharField, IntegerField, UUIDField

from compute_agent.contract.network import NETWORK
from provisioning.common.database.prepared import Prepared, PreparedDelete, PreparedInsert
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.network.errors import (
    ExternalNetworkInUseError,
    FlatNetworkInUseError,
    InvalidSharedSettingError,
    NetworkInUseError,
    NoNetworkAvailableError,
    TunnelIdInUseError,
    VlanIdInUseError,
)
from provisioning.network.models import (
    AutoAllocatedTopology,
    Delivery,
    FixedIP,
    FloatingIP,
    GroupVpc,
    Network,
    Port,
    RbacPolicy,
    Router,
    Subnet,
    Vpc,
)
from provisioning.network.records import owners
from provisioning.network.records.announcements import announce, topics_of
from provisioning.network.records.marks import mark
from provisioning.network.selectors.zones import check_zones
from provisioning.network.services.base import network_guests, records, sharing
from provisioning.network.services.floating_ips.floating_ips import delete_disassociated
from provisioning.quotas.services.ledger import hold

SMALLEST_MTU = 1280
"""The minimum MTU of IPv6 in bytes (RFC 8200): Linux disables IPv6 below it, and guests use IPv6 to read metadata."""
VXLAN, FLAT, VLAN = "vxlan", "flat", "vlan"
VXLAN_OVERHEAD = 50
"""Bytes of VXLAN encapsulation in a packet between hosts."""
VLANS = (1, 4094)
NONE_LEFT = "Unable to create the network. No tenant network is available for allocation."
NAMING = frozenset({"shared", "dns_domain"})
"""Columns that change the domains of guests' names."""
MAX_TRIES = 8
"""Attempts to insert a network; each collision means that another network got the segment concurrently."""


class NetworkFields(TypedDict, total=False):
    """Fields of a new network; ``mtu`` in bytes, 0 or omitted: the largest possible MTU."""

    description: str
    admin_state_up: bool
    shared: bool
    external: bool
    is_default: bool
    mtu: int
    port_security_enabled: bool
    dns_domain: str
    availability_zone_hints: list[str]
    network_type: str | None
    physical_network: str | None
    segmentation_id: int | None


def create_network(project_id: uuid.UUID, name: str = "", **fields: Unpack[NetworkFields]) -> Network:
    """Create a network with its own bridge name and segment.

    ``network_type``: ``vxlan`` by default, or ``flat`` or ``vlan`` on a ``physical_network``.  Without a
    ``segmentation_id`` one is allocated: a VNI of the configured range or the lowest free VLAN.  Raises
    InvalidInputError, AvailabilityZoneNotFoundError, OverQuotaError, NoNetworkAvailableError, and ConflictError for a
    segment in use.
    """
    if len(name) > 255:
        raise InvalidInputError("The name of a network has at most 255 characters.", field="name")
    identity = uuid.uuid4()
    columns: dict[str, Any] = {column: value for column, value in fields.items() if value is not None}
    network = Network(**{"network_type": VXLAN} | columns, id=identity, project_id=project_id, name=name)
    network.bridge = f"br{identity.hex[:11]}"
    _check_segment(network)
    check_zones(network.availability_zone_hints)
    network.mtu = columns.get("mtu") or _largest_mtu(network)
    _check_mtu(network, network.mtu)
    with transaction.atomic():
        hold(project_id, identity, {"networks": 1})
        _check_default(network)
        _save(network, lambda network: _INSERT([network]))
        if network.shared or network.external:
            _mirror(network)
        mark(NETWORK, [identity])
        announce(network, "create")
    return network


@when_broken_off
@transaction.atomic
def update_network(network: Network, changes: Mapping[str, Any], revision: int | None = None) -> Network:
    """Change columns of a network; ``revision``: the required current revision.

    Raises InvalidInputError, InvalidSharedSettingError if sharing would end while other projects use the network,
    NetworkInUseError while floating IPs or gateways need it to be external, and the errors of ``records.lock``.
    """
    if NAMING & changes.keys():
        network_guests.lock(network)
    row = records.lock(network, revision)
    if "mtu" in changes:
        changes = {**changes, "mtu": changes["mtu"] or _largest_mtu(row)}
        _check_mtu(row, changes["mtu"])
    if row.shared and changes.get("shared") is False and _used_by_others(row):
        msg = f"Unable to reconfigure sharing settings for network {row.name or row.id}. Multiple tenants are using it."
        raise InvalidSharedSettingError(msg, field="shared")
    if row.external and changes.get("external") is False:
        _check_no_gateways(row)
    seen = topics_of(row)
    changed = records.write(row, changes)
    if changed:
        _check_default(row)
        _mirror(row)
        mark(NETWORK, [row.id])
        announce(row, before=seen)
    if NAMING & changed:
        network_guests.notify(row)
    return row


@when_broken_off
@transaction.atomic
def delete_network(network: Network, revision: int | None = None) -> None:
    """Delete a network with its subnets, and an external network also with its unassociated floating IPs.

    Raises NetworkInUseError while it has ports other than the cloud's own, and the errors of ``records.lock``.
    """
    row = records.lock_to_delete(network, revision)
    if row.external:
        delete_disassociated(row)
    if _PORTS_IN_USE(network=row.id):
        reason = "There are one or more ports still in use on the network."
        raise NetworkInUseError(f"Unable to complete operation on network {row.id}. {reason}")
    _DELETE_ADDRESSES(network=row.id)
    _DELETE_PORTS(network=row.id)
    mark(NETWORK, [row.id])
    announce(row, "delete")
    for subnet in _SUBNETS(network=row.id):
        records.release(subnet)
    records.release(row)
    for delete in _DELETE:
        delete(network=row.id)


_INSERT = PreparedInsert(Network)
_PORTS_IN_USE = Prepared(
    lambda network: (
        Port.objects.filter(network_id=network)
        .exclude(device_owner__in=owners.OF_THE_NETWORK)
        .values_list("id", flat=True)[:1]
    ),
    network=UUIDField(),
)
_SUBNETS = Prepared(lambda network: Subnet.objects.filter(network_id=network).order_by("id"), network=UUIDField())
_DELETE_ADDRESSES = PreparedDelete(
    lambda network: FixedIP.every.filter(subnet__network_id=network), network=UUIDField()
)
_DELETE_PORTS = PreparedDelete(lambda network: Port.objects.filter(network_id=network), network=UUIDField())
_DELETE = [
    PreparedDelete(lambda network: Subnet.objects.filter(network_id=network), network=UUIDField()),
    PreparedDelete(lambda network: AutoAllocatedTopology.objects.filter(network_id=network), network=UUIDField()),
    PreparedDelete(lambda network: Vpc.objects.filter(network_id=network), network=UUIDField()),
    PreparedDelete(lambda network: GroupVpc.objects.filter(network_id=network), network=UUIDField()),
    PreparedDelete(lambda network: Network.objects.filter(id=network), network=UUIDField()),
]
"""The deletions of a locked network without ports, and of the records that belong to it."""


def _largest_mtu(network: Network) -> int:
    """Return the largest MTU that fits into packets between hosts."""
    room: int = settings.PHYSICAL_MTU
    return room - VXLAN_OVERHEAD if network.network_type == VXLAN else room


def _check_mtu(network: Network, mtu: int) -> None:
    largest = _largest_mtu(network)
    if mtu > largest:
        msg = f"Invalid input for operation: Requested MTU is too big, maximum is {largest}."
    elif mtu < SMALLEST_MTU:
        msg = f"Invalid input for operation: Requested MTU is too small, minimum is {SMALLEST_MTU}."
    else:
        return
    raise InvalidInputError(msg, field="mtu")


def _check_segment(network: Network) -> None:
    """Reject an invalid combination of segment attributes, with the messages of Neutron's type drivers."""
    kind, wire, number = network.network_type, network.physical_network, network.segmentation_id
    if kind not in {VXLAN, FLAT, VLAN}:
        msg = f"Invalid input for operation: network_type value '{kind[:64]}' not supported."
    elif kind == VXLAN and wire:
        msg = "Invalid input for operation: provider:physical_network specified for vxlan network."
    elif kind != VXLAN and not wire:
        msg = f"Invalid input for operation: physical_network required for {kind} provider network."
    elif kind == FLAT and number is not None:
        msg = "Invalid input for operation: segmentation_id specified for flat provider network."
    elif kind == VLAN and number is not None and not VLANS[0] <= number <= VLANS[1]:
        msg = f"Invalid input for operation: segmentation_id out of range ({VLANS[0]} through {VLANS[1]})."
    elif kind == VXLAN and number is not None and not 1 <= number < 1 << 24:
        msg = "Invalid input for operation: segmentation_id out of range (1 through 16777215)."
    else:
        return
    raise InvalidInputError(msg, field="provider:network_type")


@when_broken_off
@transaction.atomic
def raise_mtu(network: Network) -> None:
    """Raise a network's MTU to the minimum, if it is below."""
    row = records.lock(network)
    if row.mtu < SMALLEST_MTU:
        records.write(row, {"mtu": SMALLEST_MTU})
        mark(NETWORK, [row.id])
        announce(row)


def allocate_segment(network: Network) -> None:
    """Allocate a free VNI to a network without one.  Raises NoNetworkAvailableError."""
    _save(network, lambda network: network.save(update_fields=["segmentation_id"]))


def _save(network: Network, write: Callable[[Network], object]) -> None:
    """Write a network with the requested segment, or with a free one."""
    is_specified = network.segmentation_id is not None or network.network_type == FLAT
    if is_specified and network.segmentation_id in _kept_vnis(network):
        raise _taken(network)
    for _ in range(1 if is_specified else MAX_TRIES):
        if not is_specified:
            network.segmentation_id = _free_segment(network)
        try:
            with transaction.atomic():
                write(network)
        except IntegrityError:
            continue
        return
    raise _taken(network) if is_specified else NoNetworkAvailableError(NONE_LEFT)


def _taken(network: Network) -> ConflictError:
    wire, number = network.physical_network, network.segmentation_id
    if network.network_type == FLAT:
        return FlatNetworkInUseError(f"Unable to create the flat network. Physical network {wire} is in use.")
    if network.network_type == VLAN:
        return VlanIdInUseError(
            f"Unable to create the network. The VLAN {number} on physical network {wire} is in use."
        )
    return TunnelIdInUseError(f"Unable to create the network. The tunnel ID {number} is in use.")


def _free_segment(network: Network) -> int:
    """Return a free segment of the network's type: for VXLAN a random VNI or the next free VNI after it, for VLAN the
    lowest free VLAN id. VNIs that hosts keep for guests on unknown networks are skipped. If another network gets the
    segment before this network is saved, the database constraint rejects this network.
    """
    first, last = VLANS if network.network_type == VLAN else (settings.VNI_FIRST, settings.VNI_LAST)
    start = first if network.network_type == VLAN else first + secrets.randbelow(last - first + 1)
    kept = _kept_vnis(network)
    wire = {"kind": network.network_type, "wire": network.physical_network}
    if start not in kept and not _TAKEN(number=start, **wire):
        return start
    same = Network.objects.filter(network_type=network.network_type, physical_network=network.physical_network)
    for low, high in ((start, last), (first, start - 1)):
        taken = same.filter(segmentation_id__gte=low, segmentation_id__lte=high).order_by("segmentation_id")
        free = low
        while free in kept:
            free += 1
        for number in taken.values_list("segmentation_id", flat=True).iterator():
            if number is None or number > free:
                break
            free = max(free, number + 1)
            while free in kept:
                free += 1
        if free <= high:
            return free
    raise NoNetworkAvailableError(NONE_LEFT)


_TAKEN = Prepared(
    lambda kind, wire, number: Network.objects.filter(
        network_type=kind, physical_network=wire, segmentation_id=number
    ).values_list("id", flat=True),
    kind=CharField(),
    wire=CharField(),
    number=IntegerField(),
)


def _kept_vnis(network: Network) -> set[int]:
    """Return the VNIs of other networks that hosts keep for guests without a record."""
    if network.network_type != VXLAN:
        return set()
    return {number for number in _KEPT_VNIS(network=network.id) if number is not None}


_KEPT_VNIS = Prepared(
    lambda network: (
        Delivery.objects.filter(kept=True, vni__isnull=False).exclude(subject_id=network).values_list("vni", flat=True)
    ),
    network=UUIDField(),
)


def _check_default(network: Network) -> None:
    """Reject a second default network, and a default network that is not external."""
    if not network.is_default:
        return
    if not network.external:
        msg = "Invalid input for is_default. Reason: only an external network can be the default."
        raise InvalidInputError(msg, field="is_default")
    if Network.objects.filter(is_default=True, external=True).exclude(pk=network.pk).exists():
        msg = "A default external network already exists."
        raise InvalidInputError(msg, field="is_default")


def _mirror(network: Network) -> None:
    sharing.mirror(network, "network", access_as_shared=network.shared, access_as_external=network.external)


def _used_by_others(network: Network) -> bool:
    """Whether projects that may use the network only because it is shared with all have ports or subnets on it."""
    shared = RbacPolicy.objects.filter(object_type="network", object_id=network.id, action="access_as_shared")
    named = [
        uuid.UUID(text) for text in shared.values_list("target_project", flat=True) if text != RbacPolicy.EVERYBODY
    ]
    mine = [network.project_id, *named]
    guests = Port.objects.filter(network=network).exclude(project_id__in=mine)
    guests = guests.exclude(device_owner__startswith="network:")
    return guests.exists() or Subnet.objects.filter(network=network).exclude(project_id__in=mine).exists()


def _check_no_gateways(network: Network) -> None:
    gateways = Router.objects.filter(gateway_port__network=network).exists()
    if gateways or FloatingIP.objects.filter(network=network).exists():
        reason = "cannot be updated to be made non-external, since it has existing gateway ports"  # quoted: Neutron
        raise ExternalNetworkInUseError(f"External network {network.id} {reason}.", field="router:external")
