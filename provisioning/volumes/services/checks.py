"""Validation of the texts, sizes and states of Block Storage."""

import uuid
from collections.abc import Mapping
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.common.values.text import has_control_characters
from provisioning.hosts.selectors import zones
from provisioning.identity import policy
from provisioning.quotas.selectors import limits_of
from provisioning.quotas.services.limits import check_each
from provisioning.volumes.errors import InvalidVolumeError, VolumeNotFoundError
from provisioning.volumes.models import Attachment, StoragePool, Volume, VolumeType
from provisioning.volumes.pools import placement
from provisioning.volumes.records import holds
from provisioning.volumes.selectors.access import volume_for
from provisioning.volumes.state_machine import state

MIGRATING = "migrating"
"""The ``Volume.migration_status`` of a volume whose data is being moved."""
SWAPPING = "swapping"
"""The ``migration_status`` of a hidden volume while a host has a command to switch the guest to it."""
LONGEST = 255
MOST_METADATA = 128
LARGEST_GB = MAX_INTEGER // 1024
"""Maximum size of a volume in GiB."""


def check_texts(name: str | None = None, description: str | None = None) -> None:
    """Raise InvalidInputError for a name or description that is too long or has control characters."""
    for field, text in (("name", name), ("description", description)):
        if text is None:
            continue
        if len(text) > LONGEST:
            raise InvalidInputError(f"The {field} has {len(text)} characters; {LONGEST} are allowed.", field=field)
        if has_control_characters(text.replace("\n", "") if field == "description" else text):
            raise InvalidInputError(f"The {field} has control characters.", field=field)


def check_metadata(metadata: Mapping[Any, Any], field: str = "metadata") -> None:
    """Raise InvalidInputError for keys or values that are not text, too long or too many."""
    if len(metadata) > MOST_METADATA:
        raise InvalidInputError(f"At most {MOST_METADATA} items of {field} are allowed.", field=field)
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError(f"Keys and values of {field} must be text.", field=field)
        if not 0 < len(key) <= LONGEST or len(value) > LONGEST or has_control_characters(key):
            msg = f"Keys of {field} must have 1 to {LONGEST} characters, values at most {LONGEST}."
            raise InvalidInputError(msg, field=field)


def check_size(project_id: uuid.UUID, size_gb: Any) -> int:
    """Return a size in GiB if the project may have such a volume.  Raises InvalidInputError, OverQuotaError."""
    whole = isinstance(size_gb, int) and not isinstance(size_gb, bool)
    if not whole or not 0 < size_gb <= LARGEST_GB:
        raise InvalidInputError(f"A volume's size must be a whole number of GiB from 1 to {LARGEST_GB}.", field="size")
    check_each(limits_of(project_id), "per_volume_gigabytes", size_gb)
    return int(size_gb)


def check_free(volume: Volume) -> None:
    """Raise InvalidVolumeError if the volume has an attachment, even if its status is ``available``."""
    there = Attachment.objects.filter(volume_id=volume.id).first()
    if there is not None:
        user = f"server {there.instance_id}" if there.instance_id else "an external client"
        raise InvalidVolumeError(
            f"Volume {volume.id} still has an attachment to {user}, although it is {volume.status}."
        )


def pool_of(volume: Volume) -> StoragePool:
    """Return the pool of a volume. Raises InvalidVolumeError if it was never placed in one."""
    if volume.pool is None:
        raise InvalidVolumeError(f"Volume {volume.id} was never placed in a pool: it can only be deleted.")
    return volume.pool


def known_zones() -> set[str]:
    """Return the names of zones that have a pool or a host."""
    return {*zones(), *StoragePool.objects.values_list("availability_zone", flat=True)}


def check_zone(zone: str) -> None:
    """Raise InvalidInputError for an unknown zone; "" is valid."""
    if zone and zone not in known_zones():
        raise InvalidInputError(f"Availability zone '{zone[:255]}' is invalid.", field="availability_zone")


def check_not_moving(volume: Volume) -> None:
    """Raise InvalidVolumeError while the volume's data is being moved, even if an operator has reset its status."""
    if volume.migration_status == MIGRATING:
        raise InvalidVolumeError(f"The data of volume {volume.id} is being moved.")


def check_not_leaving(volume: Volume) -> None:
    """Raise InvalidVolumeError while a guest of the volume is being migrated to another host."""
    if Attachment.objects.filter(volume_id=volume.id, second_host__isnull=False).exists():
        raise InvalidVolumeError(f"A server with volume {volume.id} is being migrated. Wait until it has moved.")


def check_thawed(volume: Volume) -> None:
    """Raise InvalidVolumeError while a volume must not be changed.

    Its pool is frozen, its data is being moved, or another host may have it open.
    """
    check_not_moving(volume)
    if reason := holds.reason(volume):
        raise InvalidVolumeError(reason)
    if volume.pool is not None and volume.pool.frozen:
        raise InvalidVolumeError(f"The storage pool of volume {volume.id} is frozen by an operator.")


def check_may_share(context: RequestContext, volume_type: VolumeType | None) -> None:
    """Raise ForbiddenError for a multiattach type that the caller may not use.

    A context without roles is accepted: the control plane acts for a user that it has already authorized.
    """
    if context.roles and placement.allows_multiattach(volume_type):
        policy.enforce(context, "volume:multiattach")


def check_in_no_group(volume: Volume) -> None:
    """Raise InvalidVolumeError for a volume of a group: a group allows certain types, and is snapshotted as a unit."""
    if volume.group_id is not None:
        raise InvalidVolumeError(f"Volume {volume.id} belongs to group {volume.group_id}; remove it from that first.")


def locked_volume(context: RequestContext, volume_id: str | uuid.UUID) -> Volume:
    """Return a visible volume, locked until the transaction ends."""
    seen = volume_for(context, volume_id)
    volume = state.lock([seen.id]).get(seen.id)
    if volume is None:
        raise VolumeNotFoundError(volume_id)
    return volume
