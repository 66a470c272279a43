"""Jobs that deliver notifications to the webhook."""

from django.conf import settings
from django.db import transaction

from provisioning.jobs.registry import job, periodic
from provisioning.notifications import delivery, services
from provisioning.notifications.messages import TOPIC


@job(services.JOB, topic=TOPIC, long=True)
def deliver() -> None:
    delivery.deliver()


@periodic("notifications.deliver", every=5.0)
def call_sender() -> None:
    """Start a sender for deliveries that are due for a retry or were left by a dead sender."""
    if settings.NOTIFICATION_WEBHOOK and not delivery.is_held() and delivery.is_due():
        with transaction.atomic():
            services.call_sender()


@periodic("notifications.prune", every=60.0)
def prune() -> None:
    """Delete notifications that were not delivered in time."""
    services.prune()


UNPURGED = {
    "notifications.Delivery": "Deleted when it is delivered, or after NOVELLA_NOTIFICATION_RETENTION seconds.",
    "notifications.Webhook": "One row.",
}
