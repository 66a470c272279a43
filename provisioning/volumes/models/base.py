"""The common columns of Block Storage resources."""

import uuid

from django.db import models


class Owned(models.Model):
    """A resource of a project, with a name that need not be unique."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    user_id = models.UUIDField(null=True)
    name = models.CharField(max_length=255, blank=True)
    description = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name or f"({str(self.id)[:8]}…)"
