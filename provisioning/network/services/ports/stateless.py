"""Updates ports when a subnet is created or deleted on which guests derive their addresses from MAC addresses."""

from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.network.errors import RecordNotFoundError
from provisioning.network.models import FixedIP, Port, Subnet
from provisioning.network.records import guest_ports
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import ports_changed
from provisioning.network.records.owners import OF_THE_CLOUD
from provisioning.network.services.addressing import ipam
from provisioning.network.services.base import network_guests, records
from provisioning.network.services.ports.port_addresses import hold_addresses

LATELY = timedelta(hours=1)
"""Age up to which a subnet is searched for ports that were created at the same time."""


def follow_new(subnet: Subnet) -> None:
    """Allocate to every port of the network the address that its guest derives when the subnet is advertised.

    The addresses count in the quotas of the ports' projects but are never refused: the creator of the subnet must not
    depend on other projects.
    """
    changed = []
    for port in _locked(_without(subnet)):
        if ipam.add_stateless(port, [subnet]):
            hold_addresses(port, refuse=False)
            changed.append(port)
    _notify(changed)


def follow_lately() -> None:
    """Repeat ``follow_new`` for the subnets of the last hour: it misses ports that are created concurrently."""
    made = Subnet.objects.filter(ipv6_address_mode__in=ipam.STATELESS, created_at__gte=timezone.now() - LATELY)
    for subnet in made.select_related("network").order_by("id"):
        if _without(subnet).exists():
            _follow_again(subnet)


@when_broken_off
@transaction.atomic
def _follow_again(subnet: Subnet) -> None:
    network_guests.lock(subnet.network)
    try:
        follow_new(records.lock(subnet))
    except RecordNotFoundError:
        return


def follow_deleted(subnet: Subnet) -> None:
    """Remove from users' ports the addresses that their guests have derived on the subnet."""
    mine = FixedIP.objects.filter(subnet=subnet)
    ports = _locked(Port.objects.filter(fixed_ips__in=mine).exclude(OF_THE_CLOUD).order_by("id"))
    mine.filter(port__in=ports).delete()
    for port in ports:
        hold_addresses(port)
    _notify(ports)


def _without(subnet: Subnet) -> QuerySet[Port]:
    """Return users' ports on the subnet's network without an address of the subnet."""
    ports = Port.objects.filter(network=subnet.network_id).exclude(OF_THE_CLOUD)
    return ports.exclude(fixed_ips__subnet=subnet).order_by("id")


def _locked(ports: QuerySet[Port]) -> list[Port]:
    return list(ports.select_for_update(no_key=True, of=("self",)))


def _notify(ports: Sequence[Port]) -> None:
    ports_changed(ports)
    for port in ports:
        records.touch(port)
        announce(port)
    for device_id in dict.fromkeys(port.device_id for port in ports):
        guest_ports.changed(device_id)
