"""Notifications to deliver to the webhook, and the state of the webhook."""

import uuid

from django.db import models


class Delivery(models.Model):
    """A notification that the webhook has not accepted yet. It is deleted when it is delivered, or when it is older
    than NOTIFICATION_RETENTION.

    Deliveries of one ``subject`` are sent one after the other, in order of id.
    """

    message_id = models.UUIDField(default=uuid.uuid4, editable=False)
    subject = models.CharField(max_length=80)  # the instance's id, "host:<id>", "aggregate:<id>"
    event_type = models.CharField(max_length=64)
    body = models.TextField()  # JSON, the same at every attempt
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()  # not sent before
    tries = models.PositiveIntegerField(default=0)
    first_failed_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=255, blank=True)
    failed_at = models.DateTimeField(null=True)  # given up: kept until an operator sends it again, or too old

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
    """The state of the webhook and its current sender; a single row."""

    name = models.CharField(max_length=16, primary_key=True)
    holder = models.CharField(max_length=120, blank=True)  # the current sender: machine, process, mark
    held_until = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0)  # consecutive
    paused_until = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=255, blank=True)
    delivered = models.PositiveBigIntegerField(default=0)
    given_up = models.PositiveBigIntegerField(default=0)
    dropped = models.PositiveBigIntegerField(default=0)  # too old

    def __str__(self) -> str:
        return self.name
