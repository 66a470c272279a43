"""Durable commands to hosts, and calls to hosts with their answers."""

import uuid

from django.db import models


class HostCommand(models.Model):
    """One order for one host about one instance; sent until acknowledged, kept until finished."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField()
    instance_id = models.UUIDField(db_index=True)
    attempt = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    body = models.TextField()  # JSON of the contract's command body
    deadline = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    acknowledged_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["host_id", "created_at"],
                name="command_unacknowledged",
                condition=models.Q(acknowledged_at=None),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.instance_id} #{self.attempt}"


class HostCall(models.Model):
    """One question to one host and its answer; short-lived."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField(db_index=True)
    body = models.TextField()  # JSON of the contract's call body
    result = models.TextField(null=True)  # JSON of the contract's call result
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.id)
