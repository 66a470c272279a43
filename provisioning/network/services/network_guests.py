"""Guests on a network: locked before the network's records change, their hosts notified of changes of their ports."""

import uuid

from provisioning.network import guest_ports
from provisioning.network.models import Network, Port
from provisioning.network.owners import GUESTS


def lock(network: Network) -> None:
    """Lock the guests on a network, before any of its records, in the same order as changes of their ports."""
    for device_id in _devices(network):
        guest_ports.lock(device_id)


def tell(network: Network) -> None:
    """Notify the hosts of a network's guests of changed interfaces, including their names."""
    for device_id in _devices(network):
        guest_ports.changed(device_id)


def _devices(network: Network) -> list[uuid.UUID | None]:
    rows = Port.objects.filter(GUESTS, network=network).order_by("device_id")
    return list(rows.values_list("device_id", flat=True).distinct())
