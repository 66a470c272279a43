"""Follows guests that have switched to a volume's new data, or to another volume, while the records have lost the
switch.

A guest that has switched never returns to the old data, so the records follow the guest. A move or swap that is
still in the records ends as if its host had reported its end. A move that is missing in the records is recorded again,
after the host of the new data has reported the attachment (``lost_moves``), if an operator has restored records
recently.
"""

import logging
import uuid
from collections.abc import Mapping, Sequence

from django.db import transaction

from compute_agent.contract.messages import GuestState
from provisioning.common.database.retry import when_broken_off
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.actions.swap_volume import SwapVolume
from provisioning.compute.host_link import newer_guests
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.upkeep.strange_disks import locked_at_rest
from provisioning.volumes.inbound import lost_moves
from provisioning.volumes.models import Attachment

log = logging.getLogger(__name__)


def follow(host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
    """Compare the attachments that a host reports for its guests; ``complete`` as in ``reconcile.compare``."""
    has = {key: _of(guest) for guest in guests if guest.attachments and (key := read_id(guest.instance_id)) is not None}
    if not has:
        return
    rows = BlockDevice.objects.filter(instance_id__in=has, attachment_id__isnull=False)
    known = set(rows.values_list("instance_id", "attachment_id"))
    for key in sorted(has):
        strange = {volume: by for volume, by in has[key].items() if (key, by) not in known}
        if strange:
            _settle(host_id, key, strange, complete=complete)


def _of(guest: GuestState) -> dict[uuid.UUID, uuid.UUID]:
    attachments = ((read_id(volume), read_id(by)) for volume, by in (guest.attachments or {}).items())
    return {volume: by for volume, by in attachments if volume is not None and by is not None}


@when_broken_off
def _settle(host_id: uuid.UUID, key: uuid.UUID, strange: Mapping[uuid.UUID, uuid.UUID], *, complete: bool) -> None:
    with transaction.atomic():
        instance = locked_at_rest(host_id, key, complete=complete)
        if instance is None:
            return
        devices = list(BlockDevice.objects.filter(instance_id=instance.id))
        for volume_id, by in sorted(strange.items()):
            for device in devices:
                if by == device.swap_attachment_id or volume_id == device.volume_id:
                    _follow(instance, device, volume_id, by)
                    break


def _follow(instance: Instance, device: BlockDevice, volume_id: uuid.UUID, by: uuid.UUID) -> None:
    row = Attachment.objects.select_related("volume").filter(id=by).first()
    if row is None:
        if device.volume_id == volume_id and _is_of_copy(device):
            lost_moves.claim(volume_id, by, instance.host_name)
    elif device.swap_attachment_id == by or _is_of_move(instance, device, volume_id, row):
        log.warning("The guest of instance %s has switched to attachment %s.", instance.id, by)
        lost_moves.decide(volume_id)
        SwapVolume().end_unrecorded(instance, device, by)
        if device.volume_id == volume_id:
            lost_moves.followed(volume_id, by)


def _is_of_move(instance: Instance, device: BlockDevice, volume_id: uuid.UUID, row: Attachment) -> bool:
    """Whether the attachment was created for the guest on the new data of its disk's volume. If so, it is assigned to
    the server.
    """
    if device.volume_id != volume_id or device.swap_volume_id is not None:
        return False
    return lost_moves.assign(row, volume_id, instance.id)


def _is_of_copy(device: BlockDevice) -> bool:
    """Whether the database was restored recently from a backup, and the disk's attachment is older than the restore.

    Without such a restore, a host that reports another disk may have sent its audit before a migration ended.
    """
    since = newer_guests.attested_since()
    rows = Attachment.objects.filter(id=device.attachment_id or NOBODY)
    return since is not None and rows.filter(created_at__lt=since).exists()
