"""Batches: one action on many resources, with a result for each."""

import uuid

from django.db import models


class Batch(models.Model):
    """One action on many resources of a project, requested by a user.

    ``kind`` and ``action`` name the declaration in ``kinds``; ``arguments`` are its arguments (text, or lists of ids).
    The counters change in the transactions that end the items.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user_id = models.UUIDField()
    project_id = models.UUIDField(db_index=True)
    kind = models.CharField(max_length=40)
    action = models.CharField(max_length=40)
    arguments = models.JSONField(default=dict)
    total = models.PositiveIntegerField()
    done = models.PositiveIntegerField(default=0)
    unsuccessful = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    moved_at = models.DateTimeField()  # the last progress
    finished_at = models.DateTimeField(null=True)
    dismissed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["user_id", "project_id", "-created_at"], name="batch_of_user"),
            models.Index(fields=["moved_at"], condition=models.Q(finished_at=None), name="batch_unfinished"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}.{self.action} of {self.total}"


class BatchItem(models.Model):
    """One resource of a batch."""

    class State(models.TextChoices):
        """``done``: the action was started; ``refused``: a rule, a right or the state prevents it; ``failed``: an
        internal error.
        """

        WAITING = "waiting"
        DONE = "done"
        REFUSED = "refused"
        FAILED = "failed"

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField()
    resource_id = models.CharField(max_length=255)  # a UUID, or the name of a key pair
    name = models.CharField(max_length=255)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    reason = models.TextField(default="")
    error = models.CharField(max_length=80, default="")  # the class of the error

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "position"], name="batch_item_by_position")]
        indexes = [models.Index(fields=["batch", "state", "position"], name="batch_item_by_state")]

    def __str__(self) -> str:
        return f"{self.name} ({self.state})"
