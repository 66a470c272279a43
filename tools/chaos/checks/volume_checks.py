"""The conditions for volumes after a run has settled: the records, the pools, the clients of volumes in the pools, and
the guests' disks match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioning.common.tasks import TASKS
from provisioning.compute.models import Instance
from provisioning.doctor.checks.allocations import AT_A_HOST
from provisioning.doctor.finding import Finding
from provisioning.volumes.host_link.host_commands import data_id_of
from provisioning.volumes.models import Attachment, Backup, Snapshot, StoragePool, Volume
from provisioning.volumes.states import AttachStatus, BackupStatus, SnapshotStatus, VolumeStatus
from tools.chaos.checks.journals import Seen
from tools.chaos.checks.wrongs import wrong

GIB = 1 << 30
ON_THE_WAY = (AttachStatus.ATTACHING, AttachStatus.DETACHING)
COPYING = (BackupStatus.RESTORING, BackupStatus.DELETING)
HALF = (VolumeStatus.ERROR, VolumeStatus.ERROR_DELETING)
"""Statuses of volumes whose data may or may not exist."""
OF_BACKUPS = "backup-"
"""The prefix of the names of snapshots that are kept as the base of the next incremental backup."""


def under_way() -> Iterator[Finding]:
    """Yield the operations that are still running."""
    for model in TASKS.models():
        rows = model._default_manager.filter(status__in=TASKS.statuses(model))
        for key, status, deadline in rows.values_list("pk", "status", "deadline"):
            yield wrong(f"{model._meta.verbose_name} {key}", f"It is still {status}; its deadline is {deadline}.")
    for volume in Volume.objects.filter(status__in=[VolumeStatus.ATTACHING, VolumeStatus.DETACHING]):
        yield wrong(f"volume {volume.id}", f"It is still {volume.status}.")
    for backup in Backup.objects.filter(status__in=COPYING):
        yield wrong(f"backup {backup.id}", f"It is still {backup.status}.")
    for row in Attachment.objects.filter(status__in=ON_THE_WAY):
        yield wrong(f"volume {row.volume_id}", f"Its attachment {row.id} is still {row.status}.")


def everywhere(seen: Seen) -> Iterator[Finding]:
    """Compare the records with the pools and the guests."""
    for volume_id, where in seen.shared.items():
        yield wrong(f"volume {volume_id}", f"It is for one server, and two had it: {where}.")
    known: dict[str, dict[str, Volume]] = {}
    for volume in Volume.objects.exclude(pool=None).select_related("pool", "daemon_host"):
        known.setdefault(str(volume.pool_id), {})[data_id_of(volume)] = volume
    served = {str(row) for row in StoragePool.objects.values_list("id", flat=True)}
    for pool_id in known.keys() | seen.pools.keys():
        if pool_id not in served or pool_id not in seen.pools:
            yield wrong(f"pool {pool_id}", "It is not on both sides.")
            continue
        yield from _pool(pool_id, known.get(pool_id, {}), seen.pools[pool_id])
    yield from _guests(seen)


def left(seen: Seen) -> Iterator[Finding]:
    """Yield the records and data that remain after all volumes were deleted."""
    for model in (Attachment, Snapshot, Volume, Backup):
        for row in model._default_manager.all():
            status = getattr(row, "status", "")
            yield wrong(f"{model.__name__.lower()} {row.pk}", f"It is not deleted; it is {status}.")
    for pool_id, volumes in seen.pools.items():
        for key in volumes:
            yield wrong(f"pool {pool_id}", f"It still has the volume {key}.")


def _pool(pool_id: str, known: Mapping[str, Volume], stored: Mapping[str, Any]) -> Iterator[Finding]:
    for key in stored.keys() - known.keys():
        yield wrong(f"pool {pool_id}", f"It has the volume {key}, which no record knows.")
    for key, volume in known.items():
        subject, here = f"volume {volume.id}", stored.get(key)
        if here is None:
            if volume.status not in HALF:
                yield wrong(subject, f"It is {volume.status}, and has no data.")
            continue
        if here["size"] != volume.size_gb * GIB and volume.status not in HALF:
            yield wrong(subject, f"It has {volume.size_gb} GiB, and its data {here['size'] / GIB:g}.")
        yield from _differ(subject, "snapshot", snapshots_of(volume), kept_snapshots(here["snapshots"]))
        yield from _differ(subject, "client", _using(volume), {row["attachment_id"] for row in here.get("clients", [])})


def snapshots_of(volume: Volume) -> set[str]:
    """Return the ids of the snapshots that the volume's data must have."""
    rows = Snapshot.objects.filter(volume=volume).exclude(status__in=[SnapshotStatus.ERROR])
    return {str(key) for key in rows.values_list("id", flat=True)}


def kept_snapshots(snapshots: Mapping[str, Any]) -> set[str]:
    """Return the snapshots in a volume's data that must have a record: all except the snapshots of backups and of
    snapshots that have failed.
    """
    failed = {str(key) for key in Snapshot.objects.filter(status=SnapshotStatus.ERROR).values_list("id", flat=True)}
    backups = {f"{OF_BACKUPS}{key}" for key in Backup.objects.values_list("id", flat=True)}
    return set(snapshots) - failed - backups


def _using(volume: Volume) -> set[str]:
    rows = Attachment.objects.filter(volume=volume).exclude(host=None)
    rows = rows.exclude(status__in=[AttachStatus.RESERVED, AttachStatus.ERROR_ATTACHING])
    return {str(key) for key in rows.values_list("id", flat=True)}


def _guests(seen: Seen) -> Iterator[Finding]:
    """Compare the volumes of each domain with the server's attachments."""
    for row in Instance.objects.filter(vm_state__in=AT_A_HOST).order_by("id"):
        found = seen.domains.get(str(row.id))
        if found is None:
            continue
        rows = Attachment.objects.filter(instance_id=row.id, status=AttachStatus.ATTACHED)
        should = {str(key) for key in rows.values_list("id", flat=True)}
        has = {str(disk["attachment_id"]) for disk in found[1].get("volumes", [])}
        yield from _differ(f"instance {row.id}", "disk of attachment", should, has)


def _differ(subject: str, what: str, should: set[str], does: set[str]) -> Iterator[Finding]:
    for key in sorted(should - does):
        yield wrong(subject, f"The {what} {key} is missing.")
    for key in sorted(does - should):
        yield wrong(subject, f"The {what} {key} exists, but has no record.")
