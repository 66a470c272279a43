"""Floating IPs that new servers get automatically (NOVELLA_AUTO_FLOATING_IP); each is deleted with its server.

The launch allocates the floating IP, so that a full quota refuses the launch itself. It is associated when the server's
ports exist.
"""

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence

from django.conf import settings
from django.db.models import UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import ConflictError
from provisioning.common.values.ids import read_id
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FloatingIP, Network, Port, Router
from provisioning.network.records.owners import ROUTER_INTERFACE
from provisioning.network.services.floating_ips.floating_ips import associate, create_floating_ip

log = logging.getLogger(__name__)


def automatic_network(requested: Sequence[Mapping[str, str | None]]) -> Network | None:
    """Return the external network from which a server with these interfaces gets a floating IP.

    None if the setting is empty, or if no router connects one of the server's networks to the external network.
    ``requested``: the interfaces, as in ``ports.allocate``.
    """
    network = _named_network()
    return network if network is not None and _is_requested(network, requested) else None


def _named_network() -> Network | None:
    """Return the external network in NOVELLA_AUTO_FLOATING_IP; None if the setting is empty or does not match exactly
    one network.
    """
    name = settings.AUTO_FLOATING_IP
    if not name:
        return None
    rows = Network.objects.filter(external=True)
    identity = read_id(name)
    networks = list((rows.filter(pk=identity) if identity else rows.filter(name=name))[:2])
    if len(networks) != 1:
        log.error("NOVELLA_AUTO_FLOATING_IP is %r, which does not identify one external network.", name)
        return None
    return networks[0]


def with_automatic_floating_ips(ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the networks among ``ids`` on which new servers get a floating IP; at most two queries."""
    network = _named_network()
    if network is None:
        return set()
    leading = Router.objects.filter(gateway_port__network=network).values("id")
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, network__in=ids, device_id__in=leading)
    return set(legs.filter(fixed_ips__subnet__ip_version=4).values_list("network_id", flat=True))


def allocate_automatic(project_id: uuid.UUID, instance_id: uuid.UUID, network: Network) -> FloatingIP:
    """Allocate the floating IP of a server that is being launched.  Raises OverQuotaError, ConflictError."""
    try:
        return create_floating_ip(project_id, network, with_instance=instance_id)
    except OutOfAddressesError as error:
        msg = f"No floating IP is left on the network {network.name}, and the new server needs one."
        raise ConflictError(msg) from error


_WAITING = Prepared(
    lambda instance_id: FloatingIP.objects.filter(with_instance=instance_id, fixed_port=None).select_related("network"),
    instance_id=UUIDField(),
)


def associate_automatic(instance_id: uuid.UUID, ports: Sequence[Port]) -> None:
    """Associate the floating IP that was allocated for a server with the first suitable address of its ports.

    Runs in the caller's transaction. Without a suitable address, the floating IP stays unassociated.
    """
    for floating in _WAITING(instance_id=instance_id):
        for port in ports:
            address = port.fixed_ips.filter(subnet__ip_version=4).order_by("id").first()
            if address is not None and _routers(floating.network, [port.network_id]):
                associate(floating, port, address.address)
                break


def _is_requested(network: Network, requested: Sequence[Mapping[str, str | None]]) -> bool:
    ids = [identity for entry in requested if (identity := read_id(entry.get("network_id")))]
    ports = [identity for entry in requested if (identity := read_id(entry.get("port_id")))]
    if ports:
        ids += Port.objects.filter(pk__in=ports).values_list("network_id", flat=True)
    return _routers(network, ids)


def _routers(network: Network, ids: Sequence[uuid.UUID]) -> bool:
    """Whether a router connects one of the networks ``ids`` to the external ``network``."""
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, network__in=ids, fixed_ips__subnet__ip_version=4).values(
        "device_id"
    )
    return Router.objects.filter(id__in=legs, gateway_port__network=network).exists()
