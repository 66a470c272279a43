"""Adapts volumes after the database was restored from a backup.

Increases the volumes' versions, so that no version that a host has seen is used again, and shortens the deadlines of
running tasks.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from compute_agent.contract.volume import VOLUME, VOLUME_COPY
from provisioning.hosts.models import HostCommand
from provisioning.hosts.restored import LEAP
from provisioning.volumes.models import Attachment, Backup, PoolHost, Snapshot, Volume
from provisioning.volumes.services.checks import SWAPPING
from provisioning.volumes.state_machine.deadlines import connecting
from provisioning.volumes.states import AttachStatus, VolumeStatus

HEARD_WITHIN = timedelta(minutes=2)
"""Time after a restore within which hosts must reconnect and report their running commands, before these commands fail.

Connected hosts report running commands every few seconds.
"""


def restore_volumes() -> Iterable[str]:
    """Increase the version of every volume, so that no version that a host may have seen is used again.

    Shortens the deadlines of running tasks: a host that has reported the end of a command since the backup does not
    report it again. Yields sentences for the operator.
    """
    waiting = PoolHost.objects.filter(heard=False).values("pool_id")  # not heard since an earlier restore
    Volume.objects.exclude(pool_id__in=waiting).update(copied=F("version"))
    many = Volume.objects.update(copied=Coalesce("copied", "version"), version=F("version") + LEAP)
    PoolHost.objects.update(heard=False)
    _keep_moved_data()
    _shorten(timezone.now() + HEARD_WITHIN)
    yield f"Volumes: {many} numbers raised. Hosts report their volumes when they reconnect, before they get commands."


def _keep_moved_data() -> None:
    """Mark the hidden volumes of migrations, so that a failed migration does not delete the new data.

    The migration may have succeeded after the backup, and the old data may already be deleted. A host would accept the
    command to delete the new data, because the new data's version was increased too.
    """
    moved = Volume.objects.filter(migration_of__isnull=False)
    moved.exclude(status__in=(VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING)).update(migration_status=SWAPPING)


def _shorten(until: datetime) -> None:
    """Shorten the deadlines of all tasks and commands, which hosts extend by heartbeats."""
    for model in (Volume, Snapshot, Backup):
        model._default_manager.filter(deadline__isnull=False).update(deadline=until)
    open_now = HostCommand.objects.filter(subject_kind__in=(VOLUME, VOLUME_COPY), finished_at=None)
    timed = open_now.filter(deadline__isnull=False)
    timed.filter(begun_at=None).update(begun_at=timezone.now(), ends_at=None)
    timed.update(deadline=until)
    waiting = Attachment.objects.filter(status=AttachStatus.ATTACHING, connection={})
    waiting.update(updated_at=until - connecting())
