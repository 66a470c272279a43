"""Volumes after their records were restored: numbers leap ahead, and what goes on has little time to be heard of."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from compute_agent.contract.volume import VOLUME, VOLUME_COPY
from provisioning.hosts.models import HostCommand
from provisioning.hosts.restored import LEAP
from provisioning.volumes.deadlines import connecting
from provisioning.volumes.models import Attachment, Backup, PoolHost, Snapshot, Volume
from provisioning.volumes.services.checks import SWAPPING
from provisioning.volumes.states import AttachStatus, VolumeStatus

HEARD_WITHIN = timedelta(minutes=2)
"""How long hosts have to come back and to say that they still work on something: they do so every few seconds."""


def restore_volumes() -> Iterable[str]:
    """Raise the number of every volume, so that no number which a host may have seen is given again.

    The time of everything that goes on is shortened: hosts do not report a second time what has ended since the copy.
    """
    waiting = PoolHost.objects.filter(heard=False).values("pool_id")  # it is run again before they were heard
    Volume.objects.exclude(pool_id__in=waiting).update(copied=F("version"))
    many = Volume.objects.update(copied=Coalesce("copied", "version"), version=F("version") + LEAP)
    PoolHost.objects.update(heard=False)
    _keep_moved_data()
    _shorten(timezone.now() + HEARD_WITHIN)
    yield f"Volumes: {many} numbers raised. Hosts say what they have when they are back, before they are told anything."


def _keep_moved_data() -> None:
    """Let no move of the copy be given up by deleting the new data: the move may have ended since, and the old data is
    gone then.  The number of the new data has leapt ahead too, so that its host would not refuse.
    """
    moved = Volume.objects.filter(migration_of__isnull=False)
    moved.exclude(status__in=(VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING)).update(migration_status=SWAPPING)


def _shorten(until: datetime) -> None:
    """Let every task and every command be over then, unless its host gives a sign of life."""
    for model in (Volume, Snapshot, Backup):
        model._default_manager.filter(deadline__isnull=False).update(deadline=until)
    open_now = HostCommand.objects.filter(subject_kind__in=(VOLUME, VOLUME_COPY), finished_at=None)
    timed = open_now.filter(deadline__isnull=False)
    timed.filter(begun_at=None).update(begun_at=timezone.now(), ends_at=None)
    timed.update(deadline=until)
    waiting = Attachment.objects.filter(status=AttachStatus.ATTACHING, connection={})
    waiting.update(updated_at=until - connecting())
