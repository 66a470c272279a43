"""The results of requests to change a volume's size and type, stored when their last task ends."""

from django.utils import timezone

from provisioning.volumes.models import Volume, VolumeModification
from provisioning.volumes.states import VolumeStatus

TASKS = frozenset({VolumeStatus.EXTENDING, VolumeStatus.RETYPING})


def end(volume: Volume) -> None:
    """Record the end of a volume's unfinished request, if any.

    The request has failed unless the volume has the requested size and type.
    """
    row = VolumeModification.objects.filter(volume_id=volume.id, ended_at=None).first()
    if row is None:
        return
    row.failed = volume.size_gb < row.target_size_gb or type_name(volume) != row.target_type
    row.ended_at = timezone.now()
    row.save(update_fields=["failed", "ended_at"])


def type_name(volume: Volume) -> str:
    return volume.volume_type.name if volume.volume_type else ""
