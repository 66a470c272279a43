"""Volumes, their snapshots and their attachments."""

import uuid

from django.db import models

from provisioning.hosts.models import DEFAULT_ZONE, Host
from provisioning.volumes.models.base import Owned
from provisioning.volumes.models.groups import Group, GroupSnapshot
from provisioning.volumes.models.pools import StoragePool
from provisioning.volumes.models.types import VolumeType
from provisioning.volumes.states import AttachStatus, SnapshotStatus, VolumeStatus


class Volume(Owned):
    """A block device that is independent of servers. Sizes in GiB.

    ``status`` is changed only in ``volumes.state``, by conditional update according to ``states``. ``generation`` is
    the fencing number of commands about the volume. ``daemon_host``, the *daemon host*, runs the storage daemon that
    exports the volume to its clients; it is None without a daemon.
    """

    size_gb = models.PositiveIntegerField()
    status = models.CharField(max_length=24, choices=VolumeStatus, default=VolumeStatus.CREATING)
    previous_status = models.CharField(max_length=24, choices=VolumeStatus, blank=True)  # restored after a task
    deadline = models.DateTimeField(null=True)  # of the running task
    generation = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)  # incremented by each change that pages show or hosts receive
    copied = models.PositiveIntegerField(null=True)  # the version in the backup that the records were restored from
    lost = models.JSONField(
        default=dict, db_default={}
    )  # the host with newer changes than the records, the time, and the differences (said)
    pool = models.ForeignKey(StoragePool, null=True, on_delete=models.PROTECT, related_name="volumes")
    volume_type = models.ForeignKey(VolumeType, null=True, on_delete=models.PROTECT, related_name="volumes")
    availability_zone = models.CharField(max_length=255, default=DEFAULT_ZONE)
    bootable = models.BooleanField(default=False)
    read_only = models.BooleanField(default=False)
    multiattach = models.BooleanField(default=False)
    encryption_key = models.TextField(blank=True)  # encrypted with the credential keys; empty: not encrypted
    cipher = models.CharField(max_length=64, blank=True)
    key_size = models.PositiveIntegerField(default=0)  # bits
    metadata = models.JSONField(default=dict)  # text → text
    admin_metadata = models.JSONField(default=dict)
    image_metadata = models.JSONField(default=dict)  # properties of the image it was created from, text → text
    source_image_id = models.UUIDField(null=True)
    source_snapshot_id = models.UUIDField(null=True)
    source_volume_id = models.UUIDField(null=True)
    source_backup_id = models.UUIDField(null=True)
    group = models.ForeignKey(Group, null=True, on_delete=models.SET_NULL, related_name="volumes")
    migration_status = models.CharField(max_length=24, blank=True)
    data_id = models.UUIDField(null=True)  # the id of its data in its pool, if it is not the volume's id
    wanted_gb = models.PositiveIntegerField(null=True)  # the new size of a running extend
    migration_of = models.UUIDField(null=True)  # the volume whose migration this hidden volume belongs to
    progress_bytes = models.PositiveBigIntegerField(default=0)  # bytes processed by the running task
    progress_total = models.PositiveBigIntegerField(default=0)  # 0: unknown
    daemon_host = models.ForeignKey(Host, null=True, on_delete=models.SET_NULL, related_name="held_volumes")
    launched_at = models.DateTimeField(null=True)  # when its data was first available

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "-created_at", "-id"], name="volume_of_project"),
            models.Index(fields=["deadline"], name="volume_overdue", condition=models.Q(deadline__isnull=False)),
        ]


class VolumeModification(models.Model):
    """The last request to change a volume's size and type together, and its result.

    Types are stored by the names that they had at the time of the request.
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
    """The state of a volume's data at one time."""

    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="snapshots")
    size_gb = models.PositiveIntegerField()  # of the volume at that time
    status = models.CharField(max_length=24, choices=SnapshotStatus, default=SnapshotStatus.CREATING)
    deadline = models.DateTimeField(null=True)
    progress = models.PositiveSmallIntegerField(default=0)  # percent
    metadata = models.JSONField(default=dict)  # text → text
    group_snapshot = models.ForeignKey(GroupSnapshot, null=True, on_delete=models.SET_NULL, related_name="snapshots")
    consumes_quota = models.BooleanField(default=True)

    class Meta:
        indexes = [models.Index(fields=["project_id", "-created_at", "-id"], name="snapshot_of_project")]


class Attachment(models.Model):
    """A use of a volume by a server, or by an external client that asked for a connection.

    A volume that is not ``multiattach`` has one exclusive attachment at a time, enforced by a constraint.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="attachments")
    project_id = models.UUIDField(db_index=True)
    instance_id = models.UUIDField(null=True, db_index=True)
    exclusive = models.BooleanField(default=True)  # False: the volume may have several attachments
    status = models.CharField(max_length=24, choices=AttachStatus, default=AttachStatus.RESERVED)
    host = models.ForeignKey(Host, null=True, on_delete=models.PROTECT, related_name="attachments")  # of the guest
    mountpoint = models.CharField(max_length=255, blank=True)  # "/dev/vdb"
    mode = models.CharField(max_length=2, default="rw")  # rw ro
    connector = models.JSONField(default=dict)  # as given by an external client
    connection = models.JSONField(default=dict)  # compute_agent.contract.build.VolumeConnection
    second_host = models.ForeignKey(
        Host, null=True, on_delete=models.PROTECT, related_name="second_attachments"
    )  # to which the guest is migrated while it runs
    second_connection = models.JSONField(default=dict, db_default={})  # of the guest on the second host
    move = models.PositiveIntegerField(default=0, db_default=0)  # number in the export's name, see VolumeClient.move
    moves = models.PositiveIntegerField(default=0, db_default=0)  # the newest number; that of the second host
    refreshing = models.BooleanField(default=False)  # the guest's host has not applied a change of the disk yet
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
