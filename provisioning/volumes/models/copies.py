"""Backups, and transfers of volumes between projects."""

from django.db import models

from provisioning.hosts.models import DEFAULT_ZONE
from provisioning.volumes.models.base import Owned
from provisioning.volumes.models.volumes import Volume
from provisioning.volumes.states import BackupStatus


class Backup(Owned):
    """A copy of a volume's data in a backup store. An incremental backup has only the data that differs from
    ``parent``.

    A backup is kept when its volume is deleted, so ``volume_id`` is not a foreign key.
    """

    volume_id = models.UUIDField(db_index=True)
    snapshot_id = models.UUIDField(null=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    status = models.CharField(max_length=24, choices=BackupStatus, default=BackupStatus.CREATING)
    fail_reason = models.CharField(max_length=255, blank=True)
    deadline = models.DateTimeField(null=True)
    size_gb = models.PositiveIntegerField()  # of the volume
    object_count = models.PositiveIntegerField(default=0)
    stored_bytes = models.PositiveBigIntegerField(default=0)
    progress_bytes = models.PositiveBigIntegerField(default=0)
    progress_total = models.PositiveBigIntegerField(default=0)  # 0: unknown
    container = models.CharField(max_length=255, blank=True)
    service = models.CharField(max_length=40, default="folder")  # its store: folder or s3
    digest = models.CharField(max_length=128, blank=True)  # SHA-256 of the manifest, hex
    availability_zone = models.CharField(max_length=255, default=DEFAULT_ZONE)
    data_at = models.DateTimeField(null=True)  # when the volume had this data
    restored_volume_id = models.UUIDField(null=True)  # the volume that is being restored from it
    metadata = models.JSONField(default=dict)  # text → text
    encryption_key = models.TextField(blank=True)  # the volume's key at that time; empty: not encrypted
    cipher = models.CharField(max_length=64, blank=True)
    key_size = models.PositiveIntegerField(default=0)  # bits
    volume_details = models.JSONField(default=dict)  # for restored volumes: name, bootable, image metadata


class Transfer(models.Model):
    """The offer of a volume to another project, which accepts it with the key."""

    id = models.UUIDField(primary_key=True, editable=False)
    volume = models.OneToOneField(Volume, on_delete=models.CASCADE, related_name="transfer")
    name = models.CharField(max_length=255, blank=True)
    source_project_id = models.UUIDField(db_index=True)
    destination_project_id = models.UUIDField(null=True)
    salt = models.CharField(max_length=32)
    key_digest = models.CharField(max_length=64)  # SHA-256 of salt and key, hex
    no_snapshots = models.BooleanField(default=False)
    accepted = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name or str(self.id)
