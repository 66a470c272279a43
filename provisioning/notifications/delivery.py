"""The sender delivers waiting notifications to the webhook, at least once and in order for each subject.

There is one sender in the cloud at a time. When a sender dies, another one replaces it, immediately on the same machine
and elsewhere after its lease has expired; notifications that it had sent but not recorded are sent again with the same
message id. After repeated failures the webhook is paused for increasing times, and then tried with one notification. A
notification that fails while the webhook accepts others is retried after increasing times without blocking other
subjects, and is given up after ``MOST_TRIES`` attempts.
"""

import os
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from provisioning.common.values.text import one_line
from provisioning.jobs.queue import worker_groups
from provisioning.notifications import webhook
from provisioning.notifications.models import Delivery, Webhook
from provisioning.notifications.services import STANDING, call_sender

AT_ONCE = 8
"""Number of subjects that are sent concurrently."""
LONGEST_RUN = 300.0
"""Seconds after which a sender ends, and a new job continues its work."""
MOST_TRIES = 8
PATIENCE = 3
"""Consecutive failures after which the webhook is paused."""
LONGEST_PAUSE = 300
SLACK = timedelta(seconds=20)
"""Added to the webhook's timeout for the duration of a sender's lease."""


def deliver() -> None:
    """Send due notifications until none is left; returns immediately while another sender is active."""
    mark, end = _new_mark(), time.monotonic() + LONGEST_RUN
    if not settings.NOTIFICATION_WEBHOOK:
        return
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhook") as pool:
        while _hold(mark):
            try:
                while time.monotonic() < end and _send_some(mark, pool):
                    pass
            finally:
                Webhook.objects.filter(name=STANDING, holder=mark).update(holder="", held_until=timezone.now())
            if not is_due():
                return
            if time.monotonic() >= end:
                call_sender()
                return


def is_due() -> bool:
    """Whether a notification can be sent now: one is due, and the webhook is not paused."""
    now = timezone.now()
    paused = Webhook.objects.filter(name=STANDING, paused_until__gt=now).exists()
    return not paused and _heads(now, 1) != []


def is_held() -> bool:
    """Whether a sender is active."""
    standing = Webhook.objects.filter(name=STANDING).first()
    return standing is not None and _is_held(standing, timezone.now())


def pause_after(tries: int) -> timedelta:
    """Return the pause after this many consecutive failures: 1 s, 2 s, 4 s … 5 minutes."""
    return timedelta(seconds=min(2 ** max(min(tries, 20) - 1, 0), LONGEST_PAUSE))


def _new_mark() -> str:
    return f"{worker_groups.machine()}/{worker_groups.process_mark(os.getpid())}/{uuid.uuid4().hex[:8]}"


def _is_held(standing: Webhook, now: datetime) -> bool:
    """Whether a sender has the lease. A lease whose process has died is ignored immediately on the same machine; on
    other machines it counts until it expires.
    """
    if not standing.holder or standing.held_until <= now:
        return False
    machine, _, rest = standing.holder.partition("/")
    return machine != worker_groups.machine() or worker_groups.is_running(rest.partition("/")[0])


def _hold(mark: str) -> bool:
    """Acquire the lease of the sender, unless another sender has it or the webhook is paused."""
    now = timezone.now()
    standing, _ = Webhook.objects.get_or_create(name=STANDING, defaults={"held_until": now})
    if _is_held(standing, now) or (standing.paused_until is not None and standing.paused_until > now):
        return False
    as_it_was = Webhook.objects.filter(name=STANDING, holder=standing.holder, held_until=standing.held_until)
    return bool(as_it_was.update(holder=mark, held_until=_until(now)))


def _until(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.NOTIFICATION_WEBHOOK_TIMEOUT) + SLACK


def _heads(now: datetime, most: int) -> list[Delivery]:
    """Return at most ``most`` deliveries that are due, each the first waiting one of its subject, with the fewest
    attempts first.
    """
    waiting = Delivery.objects.filter(failed_at=None)
    earlier = waiting.filter(subject=OuterRef("subject"), id__lt=OuterRef("id"))
    return list(waiting.filter(~Exists(earlier), due_at__lte=now).order_by("tries", "id")[:most])


def _send_some(mark: str, pool: ThreadPoolExecutor) -> bool:
    """Send the next deliveries concurrently and record the results; False when nothing is left to do now."""
    standing = Webhook.objects.get(name=STANDING)
    now = timezone.now()
    if standing.holder != mark or (standing.paused_until is not None and standing.paused_until > now):
        return False
    heads = _heads(now, 1 if standing.failures else AT_ONCE)
    if not heads:
        return False
    errors = list(pool.map(_post, heads))
    return _note(mark, heads, errors)


def _post(delivery: Delivery) -> str:
    """Send a notification; return the reason of a failure, or an empty text. Runs in a thread, without database."""
    try:
        webhook.post(delivery.event_type, str(delivery.message_id), delivery.body)
    except webhook.WebhookError as error:
        return one_line(str(error), 255)
    except Exception as error:  # noqa: BLE001 - any error concerns this notification only
        return one_line(f"{type(error).__name__}: {error}", 255)
    return ""


def _note(mark: str, sent: Sequence[Delivery], errors: Sequence[str]) -> bool:
    """Record the results of deliveries. Returns False, with nothing written, when this sender has lost the lease."""
    now = timezone.now()
    with transaction.atomic():
        mine = Webhook.objects.filter(name=STANDING, holder=mark)
        if not mine.update(held_until=_until(now)):
            return False
        standing = mine.get()
        taken = [delivery.pk for delivery, error in zip(sent, errors, strict=True) if not error]
        Delivery.objects.filter(id__in=taken).delete()
        if taken:
            standing.last_success_at, standing.failures = now, 0
        given_up = 0
        for delivery, error in zip(sent, errors, strict=True):
            if error:
                standing.last_error = error
                standing.failures += 0 if taken else 1
                given_up += _failed(delivery, error, standing.last_success_at, now)
        paused = standing.failures >= PATIENCE
        mine.update(
            last_success_at=standing.last_success_at,
            last_error=standing.last_error if any(errors) else "",
            failures=standing.failures,
            paused_until=now + pause_after(standing.failures - PATIENCE + 1) if paused else None,
            delivered=F("delivered") + len(taken),
            given_up=F("given_up") + given_up,
        )
    return not paused


def _failed(delivery: Delivery, error: str, last_success_at: datetime | None, now: datetime) -> bool:
    """Record a failed attempt. Returns True if the delivery is given up: ``MOST_TRIES`` attempts have failed, and the
    webhook has accepted another notification since the first of them.
    """
    began, tries = delivery.first_failed_at or now, delivery.tries + 1
    others = last_success_at is not None and last_success_at >= began
    gave_up = tries >= MOST_TRIES and others
    Delivery.objects.filter(id=delivery.pk).update(
        tries=tries,
        first_failed_at=began,
        last_error=error,
        due_at=now + pause_after(tries),
        failed_at=now if gave_up else None,
    )
    return gave_up
