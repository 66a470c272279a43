"""The contents of pools as their hosts report them, compared with the records of volumes and snapshots."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils import timezone

from compute_agent.contract.volume import (
    COPY_SNAPSHOTS,
    VOLUME,
    VOLUME_COPY,
    DeleteSnapshotRequest,
    DeleteVolumeRequest,
    PoolContents,
    PoolContentsCall,
    StoredVolume,
    VolumeSpec,
    is_unmanaged,
)
from provisioning.common.errors import UnavailableError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.doctor.checks.volumes import BATCH, LONG_PAST, MOST_LISTED, as_subject
from provisioning.doctor.finding import Finding, Repair, check, number
from provisioning.doctor.repairs import alone
from provisioning.hosts import calls, commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.selectors import alive
from provisioning.hosts.subjects import Subject
from provisioning.volumes.host_link import host_commands
from provisioning.volumes.host_link.host_commands import data_id_of, spec_of
from provisioning.volumes.models import Attachment, Backup, PoolHost, Snapshot, StoragePool, Volume
from provisioning.volumes.services.connections import daemons
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus, BackupStatus, SnapshotStatus

PATIENCE = 10.0
"""Seconds for a host to list a pool."""
REMOVAL = "delete_volume_request"
KEPT_BACKUPS = (BackupStatus.CREATING, BackupStatus.AVAILABLE, BackupStatus.RESTORING)


@check("pool_contents")
def pool_contents() -> Iterator[Finding]:
    """Ask hosts for the contents of their pools and for their storage daemons, and compare the answers with the
    records.

    Fake pools are skipped.
    """
    served = PoolHost.objects.exclude(pool__driver="fake").filter(serving=True, host__connected=True)
    served = served.filter(alive(timezone.now(), "host__"))
    seen: set[uuid.UUID] = set()
    for each in served.select_related("pool", "host").order_by("pool__name", "host__name"):
        rows = Volume.objects.filter(pool=each.pool, status__in=state.RESTING).select_related("pool")
        resting = list(rows.iterator(chunk_size=BATCH))
        try:
            answer = calls.call(each.host_id, PoolContentsCall(pool_id=str(each.pool_id)), PATIENCE)
        except UnavailableError:
            continue
        if not isinstance(answer, PoolContents):
            continue
        stored, known = {volume.id: volume for volume in answer.volumes}, _PoolRecords.of(resting)
        if each.pool_id not in seen:
            seen.add(each.pool_id)
            yield from _missing(each.pool, known, stored)
            yield from _unknown(each, stored)
            yield from _unknown_snapshots(known, stored)
        else:
            yield from _unknown(each, {key: volume for key, volume in stored.items() if volume.daemon})
        yield from _daemons(each.host, known, stored)


def _unknown(served: PoolHost, stored: dict[str, StoredVolume]) -> Iterator[Finding]:
    """Find volumes without a record that are stored in a pool or served by a daemon.

    Only volumes with a finished deletion command are removed. Another volume may belong to another control plane, or
    its record may be lost. Commands are kept for one day; after that, the volume is no longer removed.
    """
    pool, host_id = served.pool, served.host_id
    ids = {data_id_of(volume) for volume in Volume.objects.filter(pool=pool)}
    strange = sorted(key for key, each in stored.items() if key not in ids and (each.daemon or not each.gone))
    subject, left_alone = f"pool {pool.name}", 0
    for key in strange:
        if commands.unfinished(VOLUME, read_id(key) or NOBODY).exists():
            continue
        if _last_deletion(key) is not None:
            sentence = f"It has the volume {key}, which was deleted."
            repair = alone(lambda key=key: _remove(pool.id, host_id, key))  # type: ignore[misc]
            yield Finding("warning", subject, sentence, "Send its host the removal command again.", repair, key)
            continue
        left_alone += 1
        if left_alone <= MOST_LISTED:
            sentence = f"It has the volume {key}, which has no record. It is not touched: the records may be lost."
            yield Finding("warning", subject, sentence, evidence=key)
    if left_alone > MOST_LISTED:
        sentence = f"It has {left_alone - MOST_LISTED} more such volumes. They are not touched."
        yield Finding("warning", subject, sentence, evidence="more")


def _last_deletion(key: str) -> HostCommand | None:
    """Return the last deletion command of a volume, if the volume has no record and the command has finished."""
    named = read_id(key)
    if named is None or (Volume.objects.filter(id=named) | Volume.objects.filter(data_id=named)).exists():
        return None
    rows = HostCommand.objects.filter(subject_kind=VOLUME, subject_id=named, kind=REMOVAL)
    last = rows.order_by("-created_at").first()
    return last if last is not None and last.finished_at is not None else None


def _remove(pool_id: uuid.UUID, host_id: uuid.UUID, key: str) -> str | None:
    last = _last_deletion(key)
    if last is None:
        return None
    body = DeleteVolumeRequest(volume=VolumeSpec(id=key, pool_id=str(pool_id), size_gb=0))
    subject = Subject(VOLUME, uuid.UUID(key), last.generation + 1)
    commands.send(host_id, subject, body, timezone.now() + LONG_PAST, beside=True)
    return "The removal command was sent to its host again."


@dataclass(frozen=True)
class _PoolRecords:
    """The records of one pool, read in a few queries because a pool may have many volumes."""

    resting: dict[str, Volume]
    """Volumes without an operation or command in progress, by the ids of their data."""
    snapshots: dict[uuid.UUID, dict[str, str]]
    """Volume → the status of each of its snapshots."""
    clients: dict[uuid.UUID, set[str]]
    """Volume → the attachments that a daemon must serve."""

    @classmethod
    def of(cls, volumes: Sequence[Volume]) -> "_PoolRecords":
        """Read the snapshots and attachments of ``volumes``, which were read before the hosts were asked for their
        contents.
        """
        ids = [volume.id for volume in volumes]
        at_work = HostCommand.objects.filter(subject_kind=VOLUME, finished_at=None)
        busy = set(at_work.values_list("subject_id", flat=True))
        snapshots: dict[uuid.UUID, dict[str, str]] = {}
        clients: dict[uuid.UUID, set[str]] = {}
        for batch in (ids[start : start + BATCH] for start in range(0, len(ids), BATCH)):
            taken = Snapshot.objects.filter(volume__in=batch)
            for volume_id, key, status in taken.values_list("volume_id", "id", "status"):
                snapshots.setdefault(volume_id, {})[str(key)] = status
            using = Attachment.objects.filter(volume__in=batch).exclude(host=None)
            using = using.exclude(status__in=[AttachStatus.RESERVED, AttachStatus.ERROR_ATTACHING])
            for volume_id, key in using.values_list("volume_id", "id"):
                clients.setdefault(volume_id, set()).add(str(key))
        return cls({data_id_of(row): row for row in volumes if row.id not in busy}, snapshots, clients)


def _missing(pool: StoragePool, known: _PoolRecords, stored: dict[str, StoredVolume]) -> Iterator[Finding]:
    for key, volume in known.resting.items():
        if key not in stored or stored[key].gone:
            yield Finding("error", as_subject(volume), f"Its data is not in the pool {pool.name}.", evidence="data")
            continue
        there = known.snapshots.get(volume.id, {})
        for snapshot_id in sorted(name for name, status in there.items() if status == SnapshotStatus.AVAILABLE):
            if snapshot_id not in stored[key].snapshots:
                sentence = f"Its data is not in the pool {pool.name}."
                yield Finding("error", f"snapshot {snapshot_id}", sentence, evidence="data")


def _unknown_snapshots(known: _PoolRecords, stored: dict[str, StoredVolume]) -> Iterator[Finding]:
    """Find snapshots in a pool that have no record.

    Snapshots that copies (clones, images, backups) have left behind are deleted. Other snapshots are not touched,
    because their records may be lost. Unmanaged snapshots are expected.
    """
    for key, volume in known.resting.items():
        if key not in stored:
            continue
        for name in sorted(set(stored[key].snapshots) - known.snapshots.get(volume.id, {}).keys()):
            of_copy = COPY_SNAPSHOTS.fullmatch(name)
            if is_unmanaged(name):
                continue
            if of_copy is None:
                sentence = f"Its data has the snapshot {name}, which has no record. It is not touched."
                yield Finding("warning", as_subject(volume), sentence, evidence=name)
            elif not _is_needed(of_copy["what"], uuid.UUID(of_copy["id"])):
                sentence = f"Its data has the snapshot {name}, which a copy left behind."
                repair = alone(lambda key=volume.id, name=name: _forget(key, name))  # type: ignore[misc]
                yield Finding("warning", as_subject(volume), sentence, "Send its host a delete command.", repair, name)


def _is_needed(what: str, key: uuid.UUID) -> bool:
    """Return whether a copy is in progress, or the next backup needs the snapshot as its base."""
    if commands.unfinished(VOLUME, key).exists() or commands.unfinished(VOLUME_COPY, key).exists():
        return True
    return what == "backup" and Backup.objects.filter(id=key, status__in=KEPT_BACKUPS).exists()


def _forget(volume_id: uuid.UUID, name: str) -> str | None:
    volume, of_copy = state.lock([volume_id]).get(volume_id), COPY_SNAPSHOTS.fullmatch(name)
    if volume is None or volume.status not in state.RESTING or _in_work(volume):
        return None
    if of_copy is None or _is_needed(of_copy["what"], uuid.UUID(of_copy["id"])):
        return None
    host_commands.send(volume, DeleteSnapshotRequest(volume=spec_of(volume), snapshot_id=name), beside=True)
    return "A command to delete it was sent to its host."


def _daemons(host: Host, known: _PoolRecords, stored: dict[str, StoredVolume]) -> Iterator[Finding]:
    """Find storage daemons that are not needed, and differences between their clients and the attachments."""
    for key, volume in known.resting.items():
        here = stored.get(key)
        if here is None:
            continue
        expected = known.clients.get(volume.id, set()) if volume.daemon_host_id == host.id else set()
        if set(here.attachments) != expected and (here.daemon or expected):
            has = f"a storage daemon with {number(len(here.attachments), 'client')}" if here.daemon else "none"
            should = f"one with {number(len(expected), 'client')}" if expected else "none"
            sentence = f"Storage daemons for it on host {host.name}: {has}; there should be {should}."
            evidence = (host.id, sorted(here.attachments), sorted(expected), volume.version)
            yield Finding(
                "warning",
                as_subject(volume),
                sentence,
                "Send the host the clients again.",
                None if volume.lost else _send_clients(volume.id, host.id),
                evidence,
            )


def _send_clients(volume_id: uuid.UUID, host_id: uuid.UUID) -> Repair:
    def work() -> str | None:
        volume = state.lock([volume_id]).get(volume_id)
        if volume is None or volume.status not in state.RESTING or _in_work(volume):
            return None
        daemons.send_clients(volume, left=host_id)
        return "The clients were sent to its host again."

    return alone(work)


def _in_work(volume: Volume) -> bool:
    return commands.unfinished("volume", volume.id).exists()
