"""RBAC policies, which share a project's records with other projects, and tags."""

import uuid

from django.db import models


class RbacPolicy(models.Model):
    """Allows another project, or all projects, to use a record."""

    EVERYBODY = "*"
    SHARED, EXTERNAL = "access_as_shared", "access_as_external"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    object_type = models.CharField(max_length=32)  # network, security_group, address_group, address_scope, subnetpool
    object_id = models.UUIDField(db_index=True)
    action = models.CharField(max_length=32)  # access_as_shared, access_as_external
    target_project = models.CharField(max_length=64)  # an id without dashes, or EVERYBODY

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["object_type", "object_id", "action", "target_project"], name="one_rbac_policy"
            )
        ]

    def __str__(self) -> str:
        return f"{self.object_type} {self.action} {self.target_project}"


class Tag(models.Model):
    """A label that an owner has set on a record."""

    resource_id = models.UUIDField()
    tag = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource_id", "tag"], name="one_tag")]

    def __str__(self) -> str:
        return self.tag
