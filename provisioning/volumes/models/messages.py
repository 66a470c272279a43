"""Messages to users about failed tasks of Block Storage."""

import uuid

from django.db import models


class Message(models.Model):
    """The reason why a task failed, for the users of the project; kept until ``expires_at``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    request_id = models.CharField(max_length=64, blank=True)
    resource_type = models.CharField(max_length=40)  # VOLUME VOLUME_SNAPSHOT VOLUME_BACKUP GROUP …
    resource_id = models.UUIDField(null=True)
    action_id = models.CharField(max_length=10)
    detail_id = models.CharField(max_length=10)
    text = models.CharField(max_length=500)
    level = models.CharField(max_length=10, default="ERROR")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.text
