"""Sending notifications: each belongs to the transaction of its change, and is not sent after a rollback."""

import functools
import json
import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from provisioning.events.services import Entry, record_all
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.cast import cast
from provisioning.notifications import webhook
from provisioning.notifications.messages import TOPIC, Notification, is_selected
from provisioning.notifications.models import Delivery, Webhook

JOB = "notifications.deliver"
STANDING = "webhook"
"""Name of the only row of ``Webhook``."""
BATCH = 1000

WRITTEN_BY_MEMBERS = frozenset(
    {"metadata", "volume_metadata", "display_description", "description", "locked_reason", "tags", "properties"}
)
"""Names of payload fields that members can write freely."""
MASK = "***"

log = logging.getLogger("novella.notifications")


def entries(notifications: Iterable[Notification]) -> list[Entry]:
    """Return notifications as events, which the caller writes in its transaction together with its own events.

    On commit the notifications are logged, and queued for the webhook if there is one. Disabled types are omitted.
    """
    selected = [(each, each.message()) for each in notifications if is_selected(each.event_type)]
    if not selected:
        return []
    for _, message in selected:
        if log.isEnabledFor(logging.INFO):
            transaction.on_commit(functools.partial(_log, message))
    if settings.NOTIFICATION_WEBHOOK:
        _keep(selected)
    return [(TOPIC, each.event_type, message) for each, message in selected]


def notify(notifications: Iterable[Notification]) -> None:
    """Send notifications in the caller's transaction."""
    events = entries(notifications)
    if events:
        record_all(events)


def send_again(ids: Sequence[int]) -> int:
    """Make deliveries due now, including those that were given up; returns their number."""
    now = timezone.now()
    with transaction.atomic():
        again = Delivery.objects.filter(id__in=list(ids)).update(
            failed_at=None, first_failed_at=None, tries=0, due_at=now
        )
        Webhook.objects.filter(name=STANDING).update(paused_until=None)
        call_sender()
    return again


def drop(ids: Sequence[int]) -> int:
    """Delete deliveries; returns their number."""
    return Delivery.objects.filter(id__in=list(ids)).delete()[0]


def prune() -> int:
    """Delete deliveries older than NOTIFICATION_RETENTION; returns their number."""
    limit = timezone.now() - timedelta(seconds=settings.NOTIFICATION_RETENTION)
    dropped = 0
    while old := list(Delivery.objects.filter(created_at__lt=limit).order_by("created_at").values_list("id")[:BATCH]):
        dropped += drop([number for (number,) in old])
    if dropped:
        Webhook.objects.filter(name=STANDING).update(dropped=F("dropped") + dropped)
        log.warning("%s notifications were dropped: the webhook has not accepted them in time.", dropped)
    return dropped


def call_sender() -> None:
    """Cast the job of the sender in the caller's transaction, unless it is already queued."""
    if not rows.is_waiting(TOPIC):
        cast(TOPIC, JOB)


def _keep(entries: Sequence[tuple[Notification, dict[str, Any]]]) -> None:
    now = timezone.now()
    Delivery.objects.bulk_create(
        Delivery(
            message_id=message["message_id"],
            subject=each.subject,
            event_type=each.event_type,
            body=webhook.encoded(message),
            created_at=now,
            due_at=now,
        )
        for each, message in entries
    )
    call_sender()


def _log(message: dict[str, Any]) -> None:
    """Log a message as one line of printable ASCII, because names chosen by users may contain terminal control
    sequences.

    Values that members write freely may be secrets; they are logged at level DEBUG only, because logs are kept.
    """
    shown = message if log.isEnabledFor(logging.DEBUG) else _without_values(message)
    log.info("%s", json.dumps(shown, separators=(",", ":")).replace("\x7f", "\\u007f"))


def _without_values(part: Any) -> Any:
    """Return a message in which the values of ``WRITTEN_BY_MEMBERS`` are masked, but not their keys."""
    if isinstance(part, dict):
        return {
            key: _masked(each) if key in WRITTEN_BY_MEMBERS else _without_values(each) for key, each in part.items()
        }
    return [_without_values(each) for each in part] if isinstance(part, list) else part


def _masked(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _masked(each) for key, each in part.items()}
    if isinstance(part, list):
        return [_masked(each) for each in part]
    return MASK if part else part
