"""Instances that a caller may see, and the related records of their representation."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from portal.api.ec2 import names, tags
from portal.api.ec2.registry import Call
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.models import BlockDevice, Instance, InstanceFault
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.ec2 import given
from provisioning.ec2.metadata_options import options_of
from provisioning.ec2.models import MetadataOptions
from provisioning.network import selectors as network
from provisioning.network.selectors import GuestInterface

SHOWN_AFTER_END = timedelta(hours=1)
"""How long a terminated instance is shown."""
ORDER = ("created_at", "reservation_id", "launch_index", "id")
"""This order keeps the instances of one launch adjacent."""


@dataclass(frozen=True)
class Related:
    """Records that instances refer to, fetched with a constant number of queries."""

    ids: names.Known
    interfaces: Mapping[uuid.UUID, Sequence[GuestInterface]] = field(default_factory=dict)
    """Instance → its interfaces."""
    volumes: Mapping[uuid.UUID, Sequence[BlockDevice]] = field(default_factory=dict)
    """Instance → its volumes."""
    tags: Mapping[uuid.UUID, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    faults: Mapping[uuid.UUID, InstanceFault] = field(default_factory=dict)
    metadata_options: Mapping[uuid.UUID, MetadataOptions] = field(default_factory=dict)
    given: Mapping[uuid.UUID, Mapping[str, Any]] = field(default_factory=dict)
    """Instance or disk → values from client requests (``ec2.given``)."""


def visible_rows(context: RequestContext) -> QuerySet[Instance]:
    """Return the project's instances with their groups, including instances terminated in the last hour."""
    return selectors.rows_with_ended(context, timezone.now() - SHOWN_AFTER_END).select_related("server_group")


def wanted(call: Call, specified: Sequence[str]) -> list[Instance]:
    """Return the instances with these ids in the order of the ids. Raises Ec2Error."""
    return names.those(names.INSTANCE, specified, visible_rows(call.context))


def related(instances: Sequence[Instance]) -> Related:
    """Fetch the related records of these instances."""
    keys = [instance.id for instance in instances]
    if not keys:
        return Related({})
    interfaces, volumes = network.interfaces_of_all(keys), volumes_shown(keys)
    every = [interface for each in interfaces.values() for interface in each]
    ports = [interface.port_id for interface in every]
    devices = [device for each in volumes.values() for device in each]
    requested = given.values_of([*keys, *(device.id for device in devices)])
    known = names.known(
        {
            names.INSTANCE: keys,
            names.IMAGE: [
                *(instance.image_id for instance in instances),
                *(uuid.UUID(each[given.IMAGE]) for each in requested.values() if given.IMAGE in each),
                *(device.source_id for device in devices if device.source_type == "image" and device.source_id),
            ],
            names.INTERFACE: ports,
            names.ATTACHMENT: ports,
            names.VPC: [interface.network_id for interface in every],
            names.SUBNET: [address.subnet_id for interface in every for address in interface.addresses],
            names.GROUP: [group for interface in every for group in interface.groups],
            names.VOLUME: [device.volume_id for device in devices],
            names.PLACEMENT_GROUP: [instance.server_group_id for instance in instances],
        }
    )
    return Related(
        ids=known,
        interfaces=interfaces,
        volumes=volumes,
        tags=tags.shapes(names.INSTANCE, keys),
        faults=selectors.fault_of(instances),
        metadata_options=options_of(keys),
        given=requested,
    )
