"""Periodic jobs for volumes: overdue tasks, hosts that are forced down, and expired messages."""

import contextlib
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.volume import VOLUME
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import UnavailableError
from provisioning.hosts import commands, restored
from provisioning.hosts.models import Host
from provisioning.jobs.periodic import reaping
from provisioning.jobs.registry import periodic
from provisioning.volumes.models import Attachment, Backup, Message, PoolHost, Snapshot, Volume
from provisioning.volumes.services import messages
from provisioning.volumes.services.connections import attachments, daemons
from provisioning.volumes.services.lifecycle.delete import delete
from provisioning.volumes.services.updates import changes
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus, VolumeStatus

COPIES_KEPT = timedelta(days=1)
"""Minimum time for which ``Volume.copied`` is kept after a restore of the database."""
AWAY = "The host that has its data is down. The data can be reached again when the host is back."


MODELS = (Volume, Snapshot, Attachment, Backup)


@periodic("volumes.reap", every=5.0)
def reap() -> int:
    """Give up overdue tasks of volumes, snapshots, attachments and backups; return their number."""
    return reaping.reap("volumes.reap", MODELS)


@periodic("volumes.delete_moved_data", every=300.0)
def delete_moved_data() -> None:
    """Try again to delete leftover data of migrations that a host refused or failed to delete."""
    left = Volume.objects.filter(migration_of__isnull=False, status=VolumeStatus.ERROR_DELETING)
    for (key,) in list(left.order_by("id").values_list("id")[:100]):
        _delete_moved(key)


@when_broken_off
@transaction.atomic
def _delete_moved(hidden_id: object) -> None:
    for hidden in state.lock([hidden_id]).values():  # type: ignore[list-item]
        if hidden.status == VolumeStatus.ERROR_DELETING:
            delete(hidden, force=True)


@periodic("volumes.follow_dead_hosts", every=15.0)
def follow_dead_hosts() -> None:
    """Release volumes from hosts that are forced down.

    Deletes attachments on these hosts that are being attached or detached. Unsets ``daemon_host`` of volumes without
    attachments. Writes messages to the owners of volumes that no other host can serve.
    """
    for (host_id,) in list(Host.objects.filter(forced_down=True).values_list("id")):
        with transaction.atomic():
            changes.detach_from_host(host_id, only_moving=True)
        held = Volume.objects.filter(daemon_host_id=host_id, pool__shared=True)
        for (key,) in list(held.values_list("id")):
            with transaction.atomic():
                for volume in state.lock([key]).values():
                    if not Attachment.objects.filter(volume_id=volume.id).exists():
                        daemons.send_clients(volume)
    _notify_owners()


@periodic("volumes.ask_places", every=60.0)
def ask_places() -> None:
    """Ask daemons again for the connections of recovered attachments whose connection is still unknown.

    Without a connection, a restarted guest would not find its disk.
    """
    records = Attachment.objects.filter(status=AttachStatus.ATTACHED, instance_id__isnull=False)
    rows = records.filter(connection__has_key="export", volume__daemon_host__connected=True)
    rows = rows.exclude(connection__has_any_keys=["socket", "port"])
    for (key,) in list(rows.order_by("volume_id").values_list("volume_id").distinct()[:100]):
        _ask_place(key)


@when_broken_off
@transaction.atomic
def _ask_place(volume_id: object) -> None:
    for volume in state.lock([volume_id]).values():  # type: ignore[list-item]
        unfinished = commands.unfinished(VOLUME, volume.id).filter(kind=attachments.KIND)
        if volume.status in state.RESTING and commands.awaited_until(unfinished) is None:
            commands.withdraw(unfinished)
            with contextlib.suppress(UnavailableError):
                daemons.send_clients(volume)


@periodic("volumes.forget_copies", every=60.0)
@when_broken_off
def forget_copies() -> None:
    """Clear ``Volume.copied`` after all hosts of the volume's pool have reported since the restore.

    A host that has lost its admission to the pool is admitted again at one of its next audits, and reports then.
    """
    last, waiting = restored.latest(), PoolHost.objects.filter(heard=False)
    if last is not None and last.at > timezone.now() - COPIES_KEPT:
        return
    heard = PoolHost.objects.exclude(pool_id__in=waiting.values("pool_id"))
    rows = Volume.objects.filter(copied__isnull=False, pool_id__in=heard.values("pool_id"))
    with transaction.atomic():
        state.keep_still(rows)
        rows.update(copied=None)


def _notify_owners() -> None:
    """Write one message for each volume whose pool is only served by hosts that are forced down."""
    reached = PoolHost.objects.filter(host__forced_down=False).values("pool_id")
    dead = PoolHost.objects.filter(host__forced_down=True).exclude(pool_id__in=reached)
    lost = Volume.objects.filter(pool_id__in=dead.values("pool_id"), migration_of=None)
    recent = Message.objects.filter(action_id=messages.REACH.id, created_at__gt=timezone.now() - messages.AGAIN)
    for volume in lost.exclude(id__in=recent.exclude(resource_id=None).values("resource_id")).order_by("id")[:1000]:
        messages.of_volume(volume, messages.REACH, AWAY)


@periodic("volumes.forget_messages", every=3600.0)
def forget_messages() -> None:
    messages.forget_old()
