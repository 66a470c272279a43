"""Creates, updates and deletes ports for users; ``services.ports`` manages the ports of servers."""

import uuid
from collections.abc import Mapping, Sequence

from django.db import IntegrityError, transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.network.errors import (
    AddressPairAndPortSecurityRequiredError,
    IpAddressGenerationFailureError,
    OutOfAddressesError,
    PortBoundError,
    PortInUseError,
    PortSecurityAndIPRequiredForSecurityGroupsError,
    PortSecurityPortHasSecurityGroupError,
    ServicePortInUseError,
)
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup, Subnet
from provisioning.network.records import guest_ports
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import ports_changed
from provisioning.network.records.owners import CLOUD, ROUTER_INTERFACE
from provisioning.network.selectors.membership import check_one_kind
from provisioning.network.services.addressing import address_pairs, ipam
from provisioning.network.services.addressing.dhcp_ports import free_mac
from provisioning.network.services.base import dhcp_options, records
from provisioning.network.services.floating_ips.floating_ips import leave_ports
from provisioning.network.services.ports.insertion import insert_with, mac_in_use, places_for
from provisioning.network.services.ports.port_addresses import (
    FixedIps,
    allocate_requested,
    hold_addresses,
    remake_stateless,
    replace,
)
from provisioning.network.services.ports.ports import OF_PORTS, lock_subnets
from provisioning.network.services.routing.router_interfaces import follow_addresses
from provisioning.network.services.security.security_groups import ensure_default_security_group
from provisioning.quotas.services.ledger import hold

OF_ITS_DEVICE = ("device_text", "device_owner", "host")
"""Columns that cannot change while a guest has the port."""
OF_PEOPLE = frozenset({"name", "description", "admin_state_up"})
"""Columns that users may change of the cloud's own ports."""


@when_broken_off
def create_port(
    project_id: uuid.UUID,
    network: Network,
    *,
    fixed_ips: FixedIps | None = None,
    mac_address: str | None = None,
    groups: Sequence[SecurityGroup] | None = None,
    **columns: object,
) -> Port:
    """Create a port that belongs to no server yet.

    Without ``fixed_ips`` it gets an address of each IP version of the network's subnets, without ``groups`` the
    project's default group. Ports whose owner begins with ``network:`` count for no quota. Raises OverQuotaError,
    MacAddressInUseError, the errors of ``allocate_requested``, and an error for security groups or address pairs
    without port security.
    """
    columns.setdefault("port_security_enabled", network.port_security_enabled)
    port = Port(network=network, project_id=project_id, **columns)
    port.extra_dhcp_opts = dhcp_options.merged([], port.extra_dhcp_opts)
    pairs = port.allowed_address_pairs
    address_pairs.checked(pairs, "")
    _check_security(port, groups or ())
    with transaction.atomic():
        if not port.device_owner.startswith(CLOUD):
            hold(project_id, port.id, dict.fromkeys(OF_PORTS, 1))
        subnets = lock_subnets([str(network.id)]).get(network.id, [])
        if groups is None:
            groups = [ensure_default_security_group(project_id)] if port.port_security_enabled else []
        check_one_kind(groups)

        def fill() -> None:
            port.allowed_address_pairs = address_pairs.checked(pairs, port.mac_address)
            if fixed_ips is None:
                for place in places_for(port, network, subnets, None):
                    ipam.allocate(port, place)
            else:
                allocate_requested(port, subnets, fixed_ips)

        try:
            insert_with(port, subnets, groups, fill, mac_address)
        except OutOfAddressesError as error:
            raise IpAddressGenerationFailureError(error.message, field="fixed_ips") from error
        Port.objects.filter(pk=port.pk).update(allowed_address_pairs=port.allowed_address_pairs)
        hold_addresses(port)
        ports_changed([port])
        announce(port, "create")
        return port


@when_broken_off
def update_port(
    row: Port,
    changes: Mapping[str, object],
    revision: int | None = None,
    *,
    fixed_ips: FixedIps | None = None,
    groups: Sequence[SecurityGroup] | None = None,
) -> Port:
    """Change columns, addresses and groups of a port, and notify the host on which its guest runs.

    A ``mac_address`` of None is replaced by a random one.

    Raises the errors of ``create_port``, PortBoundError, PortInUseError for columns of a guest's port that only Compute
    may change, ServicePortInUseError for the cloud's own ports, RevisionNumberConstraintFailedError.
    """
    if changes.get("mac_address", row.mac_address) is None:
        changes = {**changes, "mac_address": free_mac(row.network_id)}
    with transaction.atomic():
        guest_ports.lock(row.device_id)
        port = records.lock(row, revision)
        changed = {*changes} | ({"fixed_ips"} if fixed_ips is not None else set())
        changed |= {"security_groups"} if groups is not None else set()
        _check_owner(port, changes, changed)
        ports_changed([port])
        subnets = lock_subnets([str(port.network_id)]).get(port.network_id, [])
        written = _write(port, changes, subnets)
        more = False
        if fixed_ips is not None:
            before = [row.subnet_id for row in port.fixed_ips.all()]
            more = replace(port, subnets, fixed_ips)
            if port.device_owner == ROUTER_INTERFACE:
                follow_addresses(port, before)
        current = list(port.security_groups.all())
        if groups is not None and {each.pk for each in groups} != {each.pk for each in current}:
            check_one_kind(groups)
            port.security_groups.set(groups)
            more, current = True, list(groups)
        _check_security(port, current, asked_groups=groups is not None)
        if more and not written:
            records.touch(port)
        if more or written:
            ports_changed([port])
            guest_ports.changed(port.device_id)
            announce(port)
        return port


@when_broken_off
def delete_port(row: Port, revision: int | None = None) -> None:
    """Delete a port that no device uses.  Raises ServicePortInUseError, PortInUseError."""
    with transaction.atomic():
        port = records.lock_to_delete(row, revision)
        if port.device_id is not None and port.device_owner.startswith(CLOUD):
            msg = f"Port {port.id} cannot be deleted directly via the port API: has device owner {port.device_owner}."
            raise ServicePortInUseError(msg)
        if port.device_id is not None:
            raise _in_use(port)
        ports_changed([port], left=True)
        leave_ports([port.id])
        ipam.release(FixedIP.objects.filter(port=port))
        announce(port, "delete")
        records.remove(port)


def _write(port: Port, changes: Mapping[str, object], subnets: Sequence[Subnet]) -> set[str]:
    """Write columns of a locked port, and the addresses derived from its MAC address."""
    columns = dict(changes)
    if "extra_dhcp_opts" in columns:
        columns["extra_dhcp_opts"] = dhcp_options.merged(port.extra_dhcp_opts, columns["extra_dhcp_opts"])  # type: ignore[arg-type]
    mac = columns.get("mac_address", port.mac_address)
    if "allowed_address_pairs" in columns:
        columns["allowed_address_pairs"] = address_pairs.checked(columns["allowed_address_pairs"], str(mac))  # type: ignore[arg-type]
    try:
        with transaction.atomic():
            written = records.write(port, columns)
    except IntegrityError:
        raise mac_in_use(port.network_id, mac) from None
    if "mac_address" in written:
        remake_stateless(port, subnets)
    return written


def _check_owner(port: Port, changes: Mapping[str, object], requested: set[str]) -> None:
    """Reject forbidden changes of the cloud's own ports and of guests' ports."""
    device = port.device_id is not None
    if device and port.device_owner.startswith(CLOUD):
        allowed = OF_PEOPLE | ({"fixed_ips"} if port.device_owner == ROUTER_INTERFACE else set())
        if not requested <= allowed:
            named = ", ".join(sorted(requested - allowed))
            msg = f"Port {port.id} cannot be changed via the port API: has device owner {port.device_owner} ({named})."
            raise ServicePortInUseError(msg)
        return
    if port.device_owner.startswith(CLOUD) != str(changes.get("device_owner", port.device_owner)).startswith(CLOUD):
        msg = "Invalid input for device_owner. Reason: the prefix network: cannot be added or removed."
        raise InvalidInputError(msg, field="device_owner")
    if device and any(name in changes and changes[name] != _shown(port, name) for name in OF_ITS_DEVICE):
        raise _in_use(port)
    mac = changes.get("mac_address", port.mac_address)
    if device and mac != port.mac_address:
        msg = (
            f"Unable to complete operation on port {port.id}, port is already bound, port type: bridge, "
            f"old_mac {port.mac_address}, new_mac {mac}."
        )
        raise PortBoundError(msg, field="mac_address")


def _shown(port: Port, name: str) -> object:
    return str(port.device_id) if name == "device_text" else getattr(port, name)


def _check_security(port: Port, groups: Sequence[SecurityGroup], *, asked_groups: bool = True) -> None:
    if port.port_security_enabled:
        return
    if groups and asked_groups:
        msg = "Port security must be enabled and port must have an IP address in order to use security groups."
        raise PortSecurityAndIPRequiredForSecurityGroupsError(msg, field="security_groups")
    if groups:
        msg = (
            "Port has security group associated. Cannot disable port security or IP address until security group is "
            "removed."
        )
        raise PortSecurityPortHasSecurityGroupError(msg, field="port_security_enabled")
    if port.allowed_address_pairs:
        msg = "Port Security must be enabled in order to have allowed address pairs on a port."
        raise AddressPairAndPortSecurityRequiredError(msg, field="allowed_address_pairs")


def _in_use(port: Port) -> PortInUseError:
    msg = (
        f"Unable to complete operation on port {port.id} for network {port.network_id}. "
        f"Port already has an attached device {port.device_id}."
    )
    return PortInUseError(msg)
