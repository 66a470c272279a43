"""Applies changed disk limits to running guests."""

import uuid
from collections.abc import Collection

from django.db import transaction

from provisioning.jobs.queue.cast import cast
from provisioning.jobs.registry import job
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus


def follow_limits(volume_type_ids: Collection[uuid.UUID]) -> int:
    """Notify the guests of all volumes of these types that their limits have changed; return the number of volumes."""
    rows = Volume.objects.filter(volume_type_id__in=list(volume_type_ids), attachments__status=AttachStatus.ATTACHED)
    ids = list(rows.order_by("id").values_list("id", flat=True).distinct())
    for volume_id in ids:
        with transaction.atomic():
            for volume in state.lock([volume_id]).values():
                notify_guests(volume)
    return len(ids)


TOPIC, JOB = "conductor", "volumes.follow_limits"


def call_followers(volume_type_ids: Collection[uuid.UUID]) -> None:
    """Queue ``follow_limits`` for these types, in the caller's transaction."""
    ids = [str(key) for key in volume_type_ids]
    if ids:
        cast(TOPIC, JOB, volume_type_ids=ids)


@job(JOB, topic=TOPIC)
def follow(volume_type_ids: list[str]) -> None:
    follow_limits([uuid.UUID(key) for key in volume_type_ids])


def notify_guests(volume: Volume) -> None:
    """Notify the guests of a locked volume that its limits have changed, in the caller's transaction."""
    attached = Attachment.objects.filter(volume_id=volume.id, status=AttachStatus.ATTACHED)
    if attached.filter(instance_id__isnull=False).update(refreshing=True):
        uses.user().changed(volume)
        state.reread(volume)
