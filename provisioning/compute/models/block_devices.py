"""Disks of a server other than a local root disk from its image."""

import uuid

from django.db import models

from provisioning.compute.models.instances import Instance


class BlockDevice(models.Model):
    """A disk of a server (Nova's block device mapping).

    ``destination_type`` ``local``: stored on the server's host and deleted with the server. ``volume``: a volume, with
    ``volume_id`` once it exists and ``attachment_id`` once it is reserved for the server.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="block_devices")
    position = models.PositiveIntegerField(default=0)  # order of the request
    source_type = models.CharField(max_length=8)  # image volume snapshot blank
    destination_type = models.CharField(max_length=8)  # local volume
    source_id = models.UUIDField(null=True)  # image or snapshot from which the volume is created
    volume_id = models.UUIDField(null=True, db_index=True)
    attachment_id = models.UUIDField(null=True, unique=True)
    boot_index = models.IntegerField(null=True)  # 0: boot disk
    size = models.PositiveIntegerField(null=True)  # GiB; MiB for swap
    volume_type = models.CharField(max_length=255, blank=True)  # for a volume to create
    volume_name = models.CharField(max_length=255, blank=True, default="", db_default="")  # for a volume to create
    delete_on_termination = models.BooleanField(default=False)
    device_name = models.CharField(max_length=255, blank=True)  # "/dev/vdb"
    disk_bus = models.CharField(max_length=32, blank=True)
    device_type = models.CharField(max_length=32, blank=True)  # disk cdrom lun
    guest_format = models.CharField(max_length=255, blank=True)  # swap ext4 …
    tag = models.CharField(max_length=60, blank=True)
    made = models.BooleanField(default=False)  # the launch created the volume
    plugged = models.BooleanField(default=False)  # the guest has the disk
    leaving = models.BooleanField(default=False)  # being detached
    swap_volume_id = models.UUIDField(null=True)  # the replacement during a swap
    swap_attachment_id = models.UUIDField(null=True, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["instance", "volume_id"],
                name="volume_once_in_block_devices",
                condition=models.Q(volume_id__isnull=False),
                violation_error_message="The volume is attached to this instance already.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.device_name or self.source_type} of {self.instance_id}"

    @property
    def is_volume(self) -> bool:
        """Whether the disk is a volume, existing or still to be created."""
        return self.destination_type == "volume"

    @property
    def is_root(self) -> bool:
        """Whether the server boots from this disk."""
        return self.boot_index == 0
