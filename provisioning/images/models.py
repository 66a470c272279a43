"""Images with Glance's fields."""

import uuid

from django.db import models


class Image(models.Model):
    """One disk image.  Sizes in bytes, ``min_disk`` in GiB, ``min_ram`` in MiB."""

    class Status(models.TextChoices):
        """Glance's image states that Novella uses."""

        QUEUED = "queued"
        SAVING = "saving"
        UPLOADING = "uploading"
        IMPORTING = "importing"
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
    import_state = models.JSONField(default=dict)  # the os_glance_* attributes that an import shows, text to text
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="image_by_age")]

    def __str__(self) -> str:
        return self.name or str(self.id)


class ImageTask(models.Model):
    """One piece of work on an image's data in the background: an import.  Removed some time after its end."""

    class Status(models.TextChoices):
        """Glance's task states."""

        PENDING = "pending"
        PROCESSING = "processing"
        SUCCESS = "success"
        FAILURE = "failure"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    user_id = models.UUIDField(null=True)
    request_id = models.CharField(max_length=255, blank=True)
    image_id = models.UUIDField(null=True, db_index=True)
    type = models.CharField(max_length=30)
    status = models.CharField(max_length=12, choices=Status, default=Status.PENDING)
    input = models.JSONField(default=dict)
    result = models.JSONField(null=True)
    message = models.TextField(blank=True)
    done = models.BigIntegerField(default=0)  # bytes
    total = models.BigIntegerField(null=True)  # bytes, when it is known
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    expires_at = models.DateTimeField(null=True, db_index=True)  # set with its end

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="image_task_by_age")]

    def __str__(self) -> str:
        return f"{self.type} {self.id}"
