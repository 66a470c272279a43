"""The guests on a network: locked before its records change, and their hosts told of what changed for their ports."""

import uuid

from provisioning.network import guest_ports
from provisioning.network.models import Network, Port
from provisioning.network.owners import GUESTS


def lock(network: Network) -> None:
    """Lock the guests that are on a network, before any of its records, as whoever changes their ports does."""
    for device_id in _devices(network):
        guest_ports.lock(device_id)


def tell(network: Network) -> None:
    """Let the hosts of a network's guests know what their interfaces are now, names among it."""
    for device_id in _devices(network):
        guest_ports.changed(device_id)


def _devices(network: Network) -> list[uuid.UUID | None]:
    rows = Port.objects.filter(GUESTS, network=network).order_by("device_id")
    return list(rows.values_list("device_id", flat=True).distinct())
