"""Images with Glance's fields."""

import uuid

from django.db import models


class Image(models.Model):
    """One disk image.  Sizes in bytes, ``min_disk`` in GiB, ``min_ram`` in MiB."""

    class Status(models.TextChoices):
        """Glance's image states that Novella uses."""

        QUEUED = "queued"
        SAVING = "saving"
        ACTIVE = "active"
        KILLED = "killed"
        DELETED = "deleted"

    class Visibility(models.TextChoices):
        """Who sees the image."""

        PUBLIC = "public"
        PRIVATE = "private"
        SHARED = "shared"
        COMMUNITY = "community"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)  # "owner" in the API
    name = models.CharField(max_length=255, blank=True)
    status = models.CharField(max_length=16, choices=Status, default=Status.QUEUED)
    visibility = models.CharField(max_length=16, choices=Visibility, default=Visibility.SHARED)
    disk_format = models.CharField(max_length=20, null=True)
    container_format = models.CharField(max_length=20, null=True)
    size = models.BigIntegerField(null=True)
    virtual_size = models.BigIntegerField(null=True)
    checksum = models.CharField(max_length=32, null=True)  # MD5, as Glance still shows it
    os_hash_algo = models.CharField(max_length=16, null=True)
    os_hash_value = models.CharField(max_length=128, null=True)
    min_disk = models.PositiveIntegerField(default=0)
    min_ram = models.PositiveIntegerField(default=0)
    protected = models.BooleanField(default=False)
    hidden = models.BooleanField(default=False)
    tags = models.JSONField(default=list)
    properties = models.JSONField(default=dict)  # additional properties, text to text
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="image_by_age")]

    def __str__(self) -> str:
        return self.name or str(self.id)
