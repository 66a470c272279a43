"""Volumes, their snapshots, and who has them."""

import uuid

from django.db import models

from provisioning.hosts.models import DEFAULT_ZONE, Host
from provisioning.volumes.models.base import Owned
from provisioning.volumes.models.groups import Group, GroupSnapshot
from provisioning.volumes.models.pools import StoragePool
from provisioning.volumes.models.types import VolumeType
from provisioning.volumes.states import AttachStatus, SnapshotStatus, VolumeStatus


class Volume(Owned):
    """A disk that outlives guests.  Sizes in GiB.

    ``status`` moves only in ``volumes.state`` by conditional update against ``states``; ``generation`` is the fencing
    number of the commands about it.
    """

    size_gb = models.PositiveIntegerField()
    status = models.CharField(max_length=24, choices=VolumeStatus, default=VolumeStatus.CREATING)
    previous_status = models.CharField(max_length=24, choices=VolumeStatus, blank=True)  # to go back to after a task
    deadline = models.DateTimeField(null=True)  # of what is going on
    generation = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)  # raised by every change that a page shows or a host is told
    copied = models.PositiveIntegerField(null=True)  # the version in a copy that the records were restored from
    lost = models.JSONField(
        default=dict, db_default={}
    )  # which host has seen newer changes than the records, when, and which: said
    pool = models.ForeignKey(StoragePool, null=True, on_delete=models.PROTECT, related_name="volumes")
    volume_type = models.ForeignKey(VolumeType, null=True, on_delete=models.PROTECT, related_name="volumes")
    availability_zone = models.CharField(max_length=255, default=DEFAULT_ZONE)
    bootable = models.BooleanField(default=False)
    read_only = models.BooleanField(default=False)
    multiattach = models.BooleanField(default=False)
    encryption_key = models.TextField(blank=True)  # encrypted with the credential keys; empty: not encrypted
    cipher = models.CharField(max_length=64, blank=True)
    key_size = models.PositiveIntegerField(default=0)  # bits
    metadata = models.JSONField(default=dict)  # text to text
    admin_metadata = models.JSONField(default=dict)
    image_metadata = models.JSONField(default=dict)  # what it has of the image it was made from, text to text
    source_image_id = models.UUIDField(null=True)
    source_snapshot_id = models.UUIDField(null=True)
    source_volume_id = models.UUIDField(null=True)
    source_backup_id = models.UUIDField(null=True)
    group = models.ForeignKey(Group, null=True, on_delete=models.SET_NULL, related_name="volumes")
    migration_status = models.CharField(max_length=24, blank=True)
    data_id = models.UUIDField(null=True)  # under which its pool keeps it, when that is not its own id
    wanted_gb = models.PositiveIntegerField(null=True)  # what an extend that goes on makes of its size
    migration_of = models.UUIDField(null=True)  # the volume whose data it is being made to take over
    progress_bytes = models.PositiveBigIntegerField(default=0)  # moved by what is going on
    progress_total = models.PositiveBigIntegerField(default=0)  # 0: not known
    daemon_host = models.ForeignKey(Host, null=True, on_delete=models.SET_NULL, related_name="held_volumes")
    launched_at = models.DateTimeField(null=True)  # when its data was there first

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "-created_at", "-id"], name="volume_of_project"),
            models.Index(fields=["deadline"], name="volume_overdue", condition=models.Q(deadline__isnull=False)),
        ]


class VolumeModification(models.Model):
    """What somebody last asked to change of a volume's size and type in one request, and what became of it.

    Types by their names of then.
    """

    volume = models.OneToOneField(Volume, primary_key=True, on_delete=models.CASCADE, related_name="modification")
    original_size_gb = models.PositiveIntegerField()
    target_size_gb = models.PositiveIntegerField()
    original_type = models.CharField(max_length=255, blank=True)
    target_type = models.CharField(max_length=255, blank=True)
    original_multiattach = models.BooleanField(default=False)
    target_multiattach = models.BooleanField(default=False)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    failed = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.target_size_gb} GiB of {self.target_type or 'no type'}"


class Snapshot(Owned):
    """What a volume had at a moment."""

    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="snapshots")
    size_gb = models.PositiveIntegerField()  # of the volume at that moment
    status = models.CharField(max_length=24, choices=SnapshotStatus, default=SnapshotStatus.CREATING)
    deadline = models.DateTimeField(null=True)
    progress = models.PositiveSmallIntegerField(default=0)  # percent
    metadata = models.JSONField(default=dict)  # text to text
    group_snapshot = models.ForeignKey(GroupSnapshot, null=True, on_delete=models.SET_NULL, related_name="snapshots")
    consumes_quota = models.BooleanField(default=True)

    class Meta:
        indexes = [models.Index(fields=["project_id", "-created_at", "-id"], name="snapshot_of_project")]


class Attachment(models.Model):
    """One use of a volume: by a server, or by somebody outside who has asked for a connection.

    One at a time for a volume that is not ``multiattach``: the constraint says so.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="attachments")
    project_id = models.UUIDField(db_index=True)
    instance_id = models.UUIDField(null=True, db_index=True)
    exclusive = models.BooleanField(default=True)  # False: the volume may have several
    status = models.CharField(max_length=24, choices=AttachStatus, default=AttachStatus.RESERVED)
    host = models.ForeignKey(Host, null=True, on_delete=models.PROTECT, related_name="attachments")  # of the guest
    mountpoint = models.CharField(max_length=255, blank=True)  # "/dev/vdb"
    mode = models.CharField(max_length=2, default="rw")  # rw ro
    connector = models.JSONField(default=dict)  # as given by somebody outside
    connection = models.JSONField(default=dict)  # compute_agent.contract.build.VolumeConnection
    refreshing = models.BooleanField(default=False)  # its guest's host is being told of another size or connection
    attached_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["volume"],
                name="one_writer_of_volume",
                condition=models.Q(exclusive=True),
                violation_error_message="Another attachment of the volume writes to it.",
            ),
            models.UniqueConstraint(
                fields=["volume", "instance_id"],
                name="volume_once_in_server",
                condition=models.Q(instance_id__isnull=False),
                violation_error_message="The volume is attached to this instance already.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.volume_id} at {self.instance_id}"
