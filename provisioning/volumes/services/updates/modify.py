"""Changes size and type of a volume in one request, and records the result (EC2's ModifyVolume)."""

import uuid

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.volumes.errors import BeingModifiedError
from provisioning.volumes.models import Volume, VolumeModification
from provisioning.volumes.pools import placement
from provisioning.volumes.records import modifications
from provisioning.volumes.selectors import type_for
from provisioning.volumes.services.checks import locked_volume
from provisioning.volumes.services.updates.extend import Extend
from provisioning.volumes.services.updates.retype import ON_DEMAND, Retype, RetypeRequest
from provisioning.volumes.state_machine import state


@when_broken_off
@transaction.atomic
def modify_volume(
    context: RequestContext, volume_id: str | uuid.UUID, *, size_gb: int | None = None, volume_type: str = ""
) -> VolumeModification:
    """Extend a volume, change its type (moving its data if necessary), or both. None and "": unchanged.

    Raises the errors of ``Extend`` and ``Retype``, BeingModifiedError during another change, and
    InvalidInputError if the data must be moved before the volume can be extended.
    """
    volume = locked_volume(context, volume_id)
    if volume.status in modifications.TASKS:
        raise BeingModifiedError(f"Volume {volume.id} is being modified.")
    target = type_for(context, volume_type) if volume_type else volume.volume_type
    size = volume.size_gb if size_gb is None else size_gb
    if size < volume.size_gb:
        msg = f"The new size, {size} GiB, is less than the current one, {volume.size_gb} GiB: volumes cannot shrink."
        raise InvalidInputError(msg, field="new_size")
    row, _ = VolumeModification.objects.update_or_create(
        volume=volume,
        defaults={
            "original_size_gb": volume.size_gb,
            "target_size_gb": size,
            "original_type": modifications.type_name(volume),
            "target_type": target.name if target else "",
            "original_multiattach": volume.multiattach,
            "target_multiattach": placement.allows_multiattach(target) if target else volume.multiattach,
            "started_at": timezone.now(),
            "ended_at": None,
            "failed": False,
        },
    )
    if target is not None and target.id != volume.volume_type_id:
        volume = Retype.begin(context, volume.id, RetypeRequest(str(target.id), ON_DEMAND))
    if size > volume.size_gb:
        _check_stays(volume)
        volume = Extend.begin(context, volume.id, size)
    if volume.status not in modifications.TASKS:
        state.reread(volume)
        modifications.end(volume)
    row.refresh_from_db()
    return row


def _check_stays(volume: Volume) -> None:
    if volume.status in modifications.TASKS:
        msg = f"The data of volume {volume.id} must be moved for this type; extend it afterwards."
        raise InvalidInputError(msg, field="volume_type")
