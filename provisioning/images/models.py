"""Images, with the fields of Glance."""

import uuid

from django.db import models


class Image(models.Model):
    """A disk image. Sizes are in bytes, ``min_disk`` in GiB, ``min_ram`` in MiB."""

    class Status(models.TextChoices):
        """The image states of Glance that Novella uses."""

        QUEUED = "queued"
        SAVING = "saving"
        UPLOADING = "uploading"
        IMPORTING = "importing"
        ACTIVE = "active"
        DEACTIVATED = "deactivated"
        KILLED = "killed"
        DELETED = "deleted"

    class Visibility(models.TextChoices):
        """The visibility of images, as in Glance."""

        PUBLIC = "public"
        PRIVATE = "private"
        SHARED = "shared"
        COMMUNITY = "community"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)  # "owner" in the API
    name = models.CharField(max_length=255, blank=True)
    empty_name = models.BooleanField(default=False, db_default=False)  # the name is "", not unset
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
    properties = models.JSONField(default=dict)  # additional properties: name → text
    found_firmware = models.CharField(  # the firmware that its data boots with, found by disk_formats.firmware
        max_length=16, blank=True, default="", db_default=""
    )
    import_state = models.JSONField(default=dict)  # os_glance_* attributes that show an import: name → text
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="image_by_age")]

    def __str__(self) -> str:
        return self.name or str(self.id)


class ImageTag(models.Model):
    """A tag of an image, for filters; written together with ``Image.tags``."""

    image = models.ForeignKey(Image, on_delete=models.CASCADE, related_name="tag_rows")
    tag = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["image", "tag"], name="tag_once_on_image")]
        indexes = [models.Index(fields=["tag"], name="image_tag")]

    def __str__(self) -> str:
        return self.tag


class ImageProperty(models.Model):
    """An additional property of an image, for filters; written together with ``Image.properties``."""

    image = models.ForeignKey(Image, on_delete=models.CASCADE, related_name="property_rows")
    name = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)  # SHA-256 of the value, because values are too long for an index

    class Meta:
        constraints = [models.UniqueConstraint(fields=["image", "name"], name="property_once_on_image")]
        indexes = [models.Index(fields=["name", "digest"], name="image_property")]

    def __str__(self) -> str:
        return self.name


class ImageMember(models.Model):
    """A project that a shared image is shared with."""

    class Status(models.TextChoices):
        """The decision of the member. Only accepted images appear in the member's lists."""

        PENDING = "pending"
        ACCEPTED = "accepted"
        REJECTED = "rejected"

    image = models.ForeignKey(Image, on_delete=models.CASCADE, related_name="members")
    project_id = models.UUIDField()  # "member_id" in the API
    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["image", "project_id"], name="member_once_of_image")]
        indexes = [models.Index(fields=["project_id", "status"], name="image_member")]

    def __str__(self) -> str:
        return f"{self.project_id} of {self.image_id}"


class ImageTask(models.Model):
    """A background task on an image's data: an import. It is deleted some time after its end."""

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
    total = models.BigIntegerField(null=True)  # bytes, null while unknown
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    expires_at = models.DateTimeField(null=True, db_index=True)  # set when the task ends

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="image_task_by_age")]

    def __str__(self) -> str:
        return f"{self.type} {self.id}"
