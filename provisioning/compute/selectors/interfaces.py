"""Tags of a server's network interfaces."""

from provisioning.compute.models import Instance
from provisioning.network import selectors as network


def tags_of_interfaces(instance: Instance) -> dict[str, str]:
    """Return port id → tag. Tags are those of ``requested_networks``, whose entries are in the order of the
    interfaces.
    """
    requested = instance.requested_networks
    if not any(entry.get("tag") for entry in requested):
        return {}
    ports = network.port_ids_of(instance.id)
    if len(ports) != len(requested):
        return {}
    return {str(port): entry["tag"] for port, entry in zip(ports, requested, strict=True) if entry.get("tag")}
