"""Snapshots for which a volume service asks the host of the guest: no pool of this cloud needs that.

A service asks for one when the file that a guest writes is its to exchange (NFS and its like).  Here the storage host
has every open volume behind a daemon of its own, and takes snapshots of what guests write by itself.
"""

from typing import NoReturn

from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import NOBODY, read_id
from provisioning.compute.models import BlockDevice


def refuse_assisted_snapshot(volume_id: str) -> NoReturn:
    """Say why there is no such snapshot to be made or deleted, in Nova's order.  Raises InvalidInputError always."""
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
