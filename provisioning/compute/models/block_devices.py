"""Disks that a server was asked for, or has got since, beside a root disk made from its image."""

import uuid

from django.db import models

from provisioning.compute.models.instances import Instance


class BlockDevice(models.Model):
    """One disk of a server (Nova's block device mapping).

    ``destination_type`` ``local``: it is on the server's host and goes with the server.  ``volume``: it is a volume,
    of ``volume_id`` as soon as there is one, and in use by ``attachment_id`` from the moment it is the server's.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="block_devices")
    position = models.PositiveIntegerField(default=0)  # among the server's, in the order they were asked for
    source_type = models.CharField(max_length=8)  # image volume snapshot blank
    destination_type = models.CharField(max_length=8)  # local volume
    source_id = models.UUIDField(null=True)  # of the image or the snapshot that the volume is made from
    volume_id = models.UUIDField(null=True, db_index=True)
    attachment_id = models.UUIDField(null=True, unique=True)
    boot_index = models.IntegerField(null=True)  # 0: the server boots from it
    size = models.PositiveIntegerField(null=True)  # GiB; of swap MiB
    volume_type = models.CharField(max_length=255, blank=True)  # of a volume that is to be made
    delete_on_termination = models.BooleanField(default=False)
    device_name = models.CharField(max_length=255, blank=True)  # "/dev/vdb"
    disk_bus = models.CharField(max_length=32, blank=True)
    device_type = models.CharField(max_length=32, blank=True)  # disk cdrom lun
    guest_format = models.CharField(max_length=255, blank=True)  # swap ext4 …
    tag = models.CharField(max_length=60, blank=True)
    made = models.BooleanField(default=False)  # its volume was made for it by the launch
    plugged = models.BooleanField(default=False)  # the guest has it
    leaving = models.BooleanField(default=False)  # it is being taken out
    swap_volume_id = models.UUIDField(null=True)  # the volume that takes its volume's place
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
        """Whether it is, or will be, a volume."""
        return self.destination_type == "volume"

    @property
    def is_root(self) -> bool:
        """Whether the server boots from it."""
        return self.boot_index == 0
