"""Assisted volume snapshots, which no pool of this cloud needs, are rejected.

A volume service requests them if the guest's host writes to an image file (NFS and similar). Here the storage host
serves every attached volume with its own daemon, and takes snapshots of attached volumes itself.
"""

from typing import NoReturn

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.models import BlockDevice


def refuse_assisted_snapshot(volume_id: str) -> NoReturn:
    """Raise InvalidInputError for the creation or deletion of an assisted snapshot, after Nova's checks."""
    device = (
        BlockDevice.objects.filter(volume_id=read_id(volume_id) or NOBODY)
        .select_related("instance")
        .order_by("created_at", "id")
        .first()
    )
    if device is None:
        raise _invalid(f"No volume Block Device Mapping with id {volume_id[:64]}.")
    instance = device.instance
    if instance.host_id is None:
        raise _invalid(f"Instance {instance.id} is not ready")
    if instance.task_state is not None:
        raise _invalid(f"Cannot snapshot instance {instance.id} while it is in task_state {instance.task_state}")
    raise _invalid(
        f"Invalid volume: snapshots of {volume_id} are taken by its storage host; ask the Block Storage API for one."
    )


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, field="volume_id")
