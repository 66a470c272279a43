"""Guests on a network: they are locked before the network's records change, and their hosts are notified afterwards."""

import uuid

from provisioning.network.models import Network, Port
from provisioning.network.records import guest_ports
from provisioning.network.records.owners import GUESTS


def lock(network: Network) -> None:
    """Lock the guests on a network, in the order of their ids. Must run before a record of the network is locked."""
    for device_id in _devices(network):
        guest_ports.lock(device_id)


def notify(network: Network) -> None:
    """Notify the hosts of a network's guests that the guests' interfaces or names have changed."""
    for device_id in _devices(network):
        guest_ports.changed(device_id)


def _devices(network: Network) -> list[uuid.UUID | None]:
    rows = Port.objects.filter(GUESTS, network=network).order_by("device_id")
    return list(rows.values_list("device_id", flat=True).distinct())
