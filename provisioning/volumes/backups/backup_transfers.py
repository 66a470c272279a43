"""Transfers of backup data from and to hosts. A host may only transfer the backups of its unfinished commands."""

import hashlib
import uuid
from datetime import timedelta
from typing import NamedTuple

import msgspec
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.messages import decode_command_body
from compute_agent.contract.volume import VOLUME_COPY, RestoreVolumeRequest
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.hosts.models import HostCommand
from provisioning.volumes.backups import backup_data
from provisioning.volumes.backups.backup_announcements import announce_backup
from provisioning.volumes.backups.backup_data import Manifest, StoredChunk
from provisioning.volumes.backups.backup_store import store_named
from provisioning.volumes.models import Backup, Volume
from provisioning.volumes.records.announcements import announce
from provisioning.volumes.records.keys import data_key_of
from provisioning.volumes.states import BackupStatus

TOLD_EVERY = timedelta(seconds=1)
"""Minimum time between two updates of the progress."""
SPARE = 16 << 20
"""Bytes by which a disk may exceed its volume's size, for the header of an encrypted volume."""


class SentManifest(msgspec.Struct, frozen=True):
    """The message that a host sends after all chunks of a backup. It lists the chunks in order."""

    digests: list[str]  # SHA-256 of each chunk, hex
    disk_bytes: int
    full: bool


class Place(NamedTuple):
    """The position and digest of a chunk."""

    backup_id: uuid.UUID
    number: int  # from 0
    digest: str  # SHA-256, hex


def store_chunk(host_id: uuid.UUID, place: Place, chunk: bytes, progress: tuple[int, int]) -> None:
    """Store a chunk that a host sends for its backup command.

    ``progress``: the bytes of the disk that the host has processed, and their total. Raises NotFoundError if the host
    has no such command, and InvalidInputError for an invalid chunk.
    """
    backup = _in_creation(host_id, place.backup_id)
    if hashlib.sha256(chunk).hexdigest() != place.digest:
        raise InvalidInputError("The part does not match its digest.")
    disk_bytes = (backup.size_gb << 30) + SPARE
    if place.number >= backup_data.most_chunks(disk_bytes):
        raise InvalidInputError("There are too many parts.")
    backup_data.keep_chunk(_place_of(backup), place.number, chunk, disk_bytes)
    _made(backup.id, *progress)


def store_manifest(host_id: uuid.UUID, backup_id: uuid.UUID, sent: SentManifest) -> None:
    """Write the manifest of a backup that the host has sent completely.

    The backup becomes ``available`` when the host reports the end of its command. Raises NotFoundError if the host has
    no such command, InvalidInputError for a wrong disk size, and ConflictError if chunks are missing.
    """
    backup = _in_creation(host_id, backup_id)
    if not (backup.size_gb << 30) <= sent.disk_bytes <= (backup.size_gb << 30) + SPARE:
        raise InvalidInputError("The disk does not have the volume's size.")
    parent = "" if sent.full or backup.parent_id is None else str(backup.parent_id)
    chunks = [StoredChunk(digest) for digest in sent.digests]
    manifest = Manifest(str(backup_id), str(backup.volume_id), parent, backup.size_gb, sent.disk_bytes, chunks)
    digest, size = backup_data.seal(store_named(backup.service), manifest)
    Backup.objects.filter(id=backup_id, status=BackupStatus.CREATING).update(
        digest=digest, stored_bytes=size, object_count=len(chunks) + 1
    )


def manifest_to_get(host_id: uuid.UUID, backup_id: uuid.UUID) -> Manifest:
    """Return the manifest of a backup that a restore command of the host refers to; otherwise raise NotFoundError."""
    backup, _ = _being_restored(host_id, backup_id)
    return backup_data.manifest_of(store_named(backup.service), backup_id, backup.digest)[0]


def chunk_to_get(host_id: uuid.UUID, place: Place, progress: tuple[int, int]) -> bytes:
    """Return a chunk of a backup that a restore command of the host refers to; otherwise raise NotFoundError.

    ``progress``: the bytes that the host has restored to the volume, and their total.
    """
    backup, volume_id = _being_restored(host_id, place.backup_id)
    chunk = backup_data.chunk_of(_place_of(backup), place.number, place.digest)
    _restored(volume_id, *progress)
    return chunk


def _place_of(backup: Backup) -> backup_data.Place:
    """Return the location of a backup's objects.  Raises GoneError if no credential key decrypts its key."""
    return backup_data.Place(store_named(backup.service), backup.id, data_key_of(backup))


def _in_creation(host_id: uuid.UUID, backup_id: uuid.UUID) -> Backup:
    """Return a backup that the host has an unfinished command to create; otherwise raise NotFoundError."""
    rows = HostCommand.objects.filter(subject_kind=VOLUME_COPY, subject_id=backup_id, host_id=host_id)
    if rows.filter(kind="backup_volume_request", finished_at=None).exists():
        backup = Backup.objects.filter(id=backup_id, status=BackupStatus.CREATING).first()
        if backup is not None:
            return backup
    raise NotFoundError("The host has no command that needs this backup.")


def _being_restored(host_id: uuid.UUID, backup_id: uuid.UUID) -> tuple[Backup, uuid.UUID]:
    """Return a backup and the id of the volume that an unfinished restore command of the host writes it to.

    Raises NotFoundError if there is no such command.
    """
    rows = HostCommand.objects.filter(kind="restore_volume_request", host_id=host_id, finished_at=None)
    for row in rows:
        body = decode_command_body(row.body)
        if isinstance(body, RestoreVolumeRequest) and str(backup_id) in body.backup_ids:
            backup = Backup.objects.filter(id=backup_id).first()
            if backup is not None:
                return backup, row.subject_id
    raise NotFoundError("The host has no command that needs this backup.")


def _made(backup_id: uuid.UUID, done: int, total: int) -> None:
    now = timezone.now()
    rows = Backup.objects.filter(id=backup_id, updated_at__lt=now - TOLD_EVERY)
    with transaction.atomic():
        if rows.update(progress_bytes=done, progress_total=total, updated_at=now):
            announce_backup(Backup.objects.get(id=backup_id))


def _restored(volume_id: uuid.UUID, done: int, total: int) -> None:
    now = timezone.now()
    rows = Volume.objects.filter(id=volume_id, updated_at__lt=now - TOLD_EVERY)
    with transaction.atomic():
        if rows.update(progress_bytes=done, progress_total=total, updated_at=now):
            announce(Volume.objects.get(id=volume_id))
