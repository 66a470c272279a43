"""Volume types, group types and QoS specs."""

import uuid

from django.db import models


class QosSpec(models.Model):
    """Limits of the disks of a type's volumes.

    ``consumer``: ``front-end`` (the hypervisor), ``back-end`` (the pool) or ``both``.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True)
    consumer = models.CharField(max_length=16, default="back-end")
    specs = models.JSONField(default=dict)  # text → text
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class VolumeType(models.Model):
    """A volume type: the pools, encryption and QoS specs of its volumes."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True)
    description = models.CharField(max_length=255, null=True)
    is_public = models.BooleanField(default=True)
    extra_specs = models.JSONField(default=dict)  # text → text
    qos_spec = models.ForeignKey(QosSpec, null=True, on_delete=models.PROTECT, related_name="types")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class VolumeTypeAccess(models.Model):
    """Access of a project to a volume type that is not public."""

    volume_type = models.ForeignKey(VolumeType, on_delete=models.CASCADE, related_name="access")
    project_id = models.UUIDField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["volume_type", "project_id"], name="one_volume_type_access")]

    def __str__(self) -> str:
        return f"{self.volume_type_id} {self.project_id}"


class TypeEncryption(models.Model):
    """The encryption of the volumes of a type; each volume has its own key."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    volume_type = models.OneToOneField(VolumeType, on_delete=models.CASCADE, related_name="encryption")
    provider = models.CharField(max_length=255)  # "luks"
    cipher = models.CharField(max_length=255, null=True)
    key_size = models.PositiveIntegerField(null=True)  # bits
    control_location = models.CharField(max_length=16, default="front-end")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.provider} of {self.volume_type_id}"


class DefaultType(models.Model):
    """The default volume type of a project."""

    project_id = models.UUIDField(primary_key=True)
    volume_type = models.ForeignKey(VolumeType, on_delete=models.CASCADE, related_name="defaults")

    def __str__(self) -> str:
        return f"{self.project_id} {self.volume_type_id}"


class GroupType(models.Model):
    """A type of volume groups."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True)
    description = models.CharField(max_length=255, null=True)
    is_public = models.BooleanField(default=True)
    group_specs = models.JSONField(default=dict)  # text → text
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name
