"""Rows of new ports, with their addresses."""

import uuid
from collections.abc import Callable, Sequence

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from compute_agent.contract.network import FLOATING_IP
from provisioning.common.database.prepared import PreparedInsert
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.network import addressing
from provisioning.network.errors import MacAddressInUseError, PortRequiresFixedIPError
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, SecurityGroup, Subnet
from provisioning.network.records.marks import mark
from provisioning.network.services.addressing import ipam

Membership = Port.security_groups.through
"""Rows that relate ports to their security groups."""
MAX_TRIES = 8
"""Attempts to insert one port; each collision means that another writer got the address or the MAC concurrently."""


class InterfacePlan:
    """One interface of an instance whose ports are being allocated."""

    def __init__(
        self, instance_id: uuid.UUID, project_id: uuid.UUID, index: int, host: str, owner: str, dns_name: str
    ) -> None:
        self.instance_id, self.project_id = instance_id, project_id
        self.columns = {
            "device_id": instance_id,
            "device_index": index,
            "device_owner": owner,
            "host": host,
            "dns_name": dns_name,
        }

    def attach(self, port_id: str) -> None:
        """Attach an existing port by id: it must be the project's, have an address, and not be in use."""
        mine = Port.objects.filter(pk=port_id, project_id=self.project_id, delete_with_device=False)
        taken = mine.filter(device_id=None, device_text="").update(
            **self.columns, status="BUILD", revision_number=F("revision_number") + 1, updated_at=timezone.now()
        )
        if not taken:
            msg = f"Port {port_id} is still in use." if mine.exists() else f"Port id {port_id} could not be found."
            raise InvalidInputError(msg, field="networks")
        if not FixedIP.objects.filter(port_id=port_id).exists():
            raise PortRequiresFixedIPError(port_id)
        mark(FLOATING_IP, FloatingIP.objects.filter(fixed_port=uuid.UUID(port_id)).values_list("id", flat=True))

    def create(
        self,
        place: tuple[Network, Sequence[Subnet]],
        fixed_ip: str | None,
        groups: Sequence[SecurityGroup],
    ) -> None:
        """Create a port that is deleted with the instance; it has groups only if the network has port security."""
        network, subnets = place
        secured = network.port_security_enabled
        port = Port(
            network=network,
            project_id=self.project_id,
            status="BUILD",
            delete_with_device=True,
            port_security_enabled=secured,
            **self.columns,
        )
        try:
            insert_port(port, network, subnets, fixed_ip, groups if secured else ())
        except IntegrityError as error:
            raise ConflictError(f"The ports of instance {self.instance_id} are being allocated.") from error


def insert_port(
    port: Port, network: Network, subnets: Sequence[Subnet], fixed_ip: str | None, groups: Sequence[SecurityGroup]
) -> Port:
    """Insert a port with an address of each IP version, and the addresses that its guest derives on IPv6 subnets."""

    def fill() -> None:
        for place in places_for(port, network, subnets, fixed_ip):
            ipam.allocate(port, place)

    return insert_with(port, subnets, groups, fill)


def insert_with(
    port: Port,
    subnets: Sequence[Subnet],
    groups: Sequence[SecurityGroup],
    fill: Callable[[], None],
    mac_address: str | None = None,
) -> Port:
    """Insert a port; ``fill`` allocates its addresses.

    If the MAC address or an address is in use, the insert is retried with another MAC address and the next free
    address. Raises MacAddressInUseError if the given MAC address is in use.
    """
    attempt = 0
    while True:
        attempt += 1
        port.mac_address = mac_address or addressing.random_mac()
        try:
            with transaction.atomic():
                _INSERT([port])
                fill()
                ipam.add_stateless(port, subnets)
                _JOIN_GROUPS(Membership(port=port, securitygroup=group) for group in groups)
        except IntegrityError:
            if mac_address and Port.objects.filter(network=port.network_id, mac_address=mac_address).exists():
                raise mac_in_use(port.network_id, mac_address) from None
            if attempt == MAX_TRIES:
                raise
        else:
            return port


_INSERT, _JOIN_GROUPS = PreparedInsert(Port), PreparedInsert(Membership)


def mac_in_use(network_id: uuid.UUID, mac: object) -> MacAddressInUseError:
    """Return the error for a MAC address that another port uses."""
    msg = f"Unable to complete operation for network {network_id}. The mac address {mac} is in use."
    return MacAddressInUseError(msg, field="mac_address")


def places_for(port: Port, network: Network, subnets: Sequence[Subnet], fixed_ip: str | None) -> list[ipam.Place]:
    """Return the addresses for a new port: the requested one, or the lowest free one of each IP version of the network.

    Subnets where guests derive their addresses are skipped. On a network without other subnets, the result is empty.
    """
    if fixed_ip:
        return [ipam.named_place(subnets, fixed_ip)]
    with_dhcp = [subnet for subnet in subnets if not ipam.is_stateless(subnet)]
    versions = [[subnet for subnet in with_dhcp if subnet.ip_version == version] for version in (4, 6)]
    return [ipam.free_place(network, each, port.device_owner) for each in versions if each]
