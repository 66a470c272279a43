"""The instances that a caller sees, and what of other tables their answers show."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.utils import timezone

from portal.api.ec2 import names, owned
from portal.api.ec2.registry import Call
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.models import BlockDevice, Instance, InstanceFault
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.compute.states import VmState
from provisioning.ec2 import ids
from provisioning.ec2.tags import tags_of
from provisioning.network import selectors as network
from provisioning.network.models import Port

SHOWN_AFTER_END = timedelta(hours=1)
"""How long an instance that was terminated is still shown."""
_GONE = (VmState.DELETED, VmState.SOFT_DELETED)


@dataclass(frozen=True)
class Related:
    """What instances refer to, fetched with as many queries whatever their number."""

    ids: Mapping[uuid.UUID, str]
    """Instance → its EC2 id."""
    images: Mapping[uuid.UUID, str] = field(default_factory=dict)
    ports: Mapping[uuid.UUID, Sequence[Port]] = field(default_factory=dict)
    """Of each instance."""
    port_ids: Mapping[uuid.UUID, str] = field(default_factory=dict)
    attachments: Mapping[uuid.UUID, str] = field(default_factory=dict)
    """Port → the id of its attachment."""
    networks: Mapping[uuid.UUID, str] = field(default_factory=dict)
    subnets: Mapping[uuid.UUID, str] = field(default_factory=dict)
    groups: Mapping[uuid.UUID, str] = field(default_factory=dict)
    volumes: Mapping[uuid.UUID, Sequence[BlockDevice]] = field(default_factory=dict)
    """Of each instance."""
    volume_ids: Mapping[uuid.UUID, str] = field(default_factory=dict)
    tags: Mapping[uuid.UUID, Mapping[str, str]] = field(default_factory=dict)
    faults: Mapping[uuid.UUID, InstanceFault] = field(default_factory=dict)


def visible(context: RequestContext, keys: Collection[uuid.UUID] | None = None) -> list[Instance]:
    """Return the project's instances, also those that ended in the last hour; of some keys only, if they are given."""
    ended = timezone.now() - SHOWN_AFTER_END
    there = selectors.instances_for(context, ids=keys)
    gone = (selectors.instances_for(context, ids=keys, vm_state=state, changes_since=ended) for state in _GONE)
    return [*there, *(instance for each in gone for instance in each)]


def wanted(call: Call, given: Sequence[str]) -> list[Instance]:
    """Return the instances of these ids in their order, all that there are without any; Ec2Error."""
    return names.fetched(names.INSTANCE, given, lambda keys: visible(call.context, keys), lambda instance: instance.id)


def related(instances: Sequence[Instance]) -> Related:
    """Fetch what the answers about these instances show."""
    keys = [instance.id for instance in instances]
    if not keys:
        return Related({})
    ports = network.interfaces_of_all(keys)
    volumes = volumes_shown(keys)
    every = [port for each in ports.values() for port in each]
    fixed = [address for port in every for address in port.fixed_ips.all()]
    return Related(
        ids=ids.ids_of(names.INSTANCE.prefix, keys),
        images=_known(names.IMAGE, (instance.image_id for instance in instances)),
        ports=ports,
        port_ids=_known(names.INTERFACE, (port.id for port in every)),
        attachments=_known(names.ATTACHMENT, (port.id for port in every)),
        networks=_known(names.VPC, (port.network_id for port in every)),
        subnets=_known(names.SUBNET, (address.subnet_id for address in fixed)),
        groups=_known(names.GROUP, (group.id for port in every for group in port.security_groups.all())),
        volumes=volumes,
        volume_ids=_known(names.VOLUME, (device.volume_id for each in volumes.values() for device in each)),
        tags=tags_of(names.INSTANCE.prefix, keys),
        faults=selectors.fault_of(instances),
    )


def _known(kind: names.Kind, resources: Iterable[uuid.UUID | None]) -> dict[uuid.UUID, str]:
    return ids.ids_of(kind.prefix, (each for each in resources if each is not None))


def _owned(context: RequestContext, resources: Iterable[uuid.UUID]) -> set[uuid.UUID]:
    return {instance.id for instance in visible(context, set(resources))}


owned.register(names.INSTANCE, _owned)
