"""Notifications on their way to the webhook, and how that one does."""

import uuid

from django.db import models


class Delivery(models.Model):
    """One notification that the webhook has not taken yet; it goes when it has, or when NOTIFICATION_RETENTION is over.

    Those of one ``subject`` are sent in the order of their ids, one after the other.
    """

    message_id = models.UUIDField(default=uuid.uuid4, editable=False)
    subject = models.CharField(max_length=80)  # the instance's id, "host:<id>", "aggregate:<id>"
    event_type = models.CharField(max_length=64)
    body = models.TextField()  # JSON, as it is sent each time
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()  # not before
    tries = models.PositiveIntegerField(default=0)
    first_failed_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=255, blank=True)
    failed_at = models.DateTimeField(null=True)  # given up: kept until it is sent again by hand, or too old

    class Meta:
        verbose_name_plural = "deliveries"
        indexes = [
            models.Index(fields=["subject", "id"], name="delivery_waiting", condition=models.Q(failed_at=None)),
            models.Index(fields=["due_at"], name="delivery_due", condition=models.Q(failed_at=None)),
            models.Index(fields=["id"], name="delivery_failed", condition=models.Q(failed_at__isnull=False)),
            models.Index(fields=["created_at"], name="delivery_age"),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.message_id}"


class Webhook(models.Model):
    """How the webhook does, and who sends to it now: one row."""

    name = models.CharField(max_length=16, primary_key=True)
    holder = models.CharField(max_length=120, blank=True)  # the run that sends now: machine, process, mark
    held_until = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0)  # in a row
    paused_until = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=255, blank=True)
    delivered = models.PositiveBigIntegerField(default=0)
    given_up = models.PositiveBigIntegerField(default=0)
    dropped = models.PositiveBigIntegerField(default=0)  # too old

    def __str__(self) -> str:
        return self.name
