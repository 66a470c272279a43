"""Counts of notification deliveries."""

from typing import NamedTuple

from provisioning.notifications.models import Delivery, Webhook
from provisioning.notifications.services import STANDING


class DeliveryStatus(NamedTuple):
    """Numbers of notifications: ``waiting`` and ``failed`` (given up) now; the others count all notifications
    so far.
    """

    waiting: int
    failed: int
    delivered: int
    given_up: int
    dropped: int


def delivery_status() -> DeliveryStatus:
    waiting = Delivery.objects.filter(failed_at=None).count()
    failed = Delivery.objects.filter(failed_at__isnull=False).count()
    totals = Webhook.objects.filter(name=STANDING).values_list("delivered", "given_up", "dropped").first()
    return DeliveryStatus(waiting, failed, *(totals or (0, 0, 0)))
