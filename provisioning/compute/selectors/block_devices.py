"""Queries of the volumes of servers, for their owners, and of the tags of their interfaces."""

import uuid
from collections.abc import Collection, Mapping

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.compute.models import BlockDevice, Instance
from provisioning.network import selectors as network

_SHOWN = Prepared(
    lambda ids: BlockDevice.objects.filter(Among("instance_id", ids), volume_id__isnull=False).order_by("position"),
    ids=Ids(),
)


def volumes_shown(ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, list[BlockDevice]]:
    """Return server → its disks that are volumes, in order of position, with one query."""
    result: dict[uuid.UUID, list[BlockDevice]] = {}
    for device in _SHOWN(ids=ids):
        result.setdefault(device.instance_id, []).append(device)
    return result


def have_volumes(ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the ids of those servers that have volumes or will have them after their launch."""
    rows = BlockDevice.objects.filter(instance_id__in=list(ids), destination_type="volume")
    return set(rows.values_list("instance_id", flat=True))


def tags_of_interfaces(instance: Instance) -> dict[str, str]:
    """Return port id → tag. The tags come from ``requested_networks``, whose entries are in the order of the
    interfaces.
    """
    requested = instance.requested_networks
    if not any(entry.get("tag") for entry in requested):
        return {}
    ports = network.port_ids_of(instance.id)
    if len(ports) != len(requested):
        return {}
    return {str(port): entry["tag"] for port, entry in zip(ports, requested, strict=True) if entry.get("tag")}
