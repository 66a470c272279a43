"""The queue, the workers, periodic work, and delivery to the webhook."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.doctor.finding import Finding, Repair, check
from provisioning.jobs.models import WorkerBeat
from provisioning.jobs.queue import rows
from provisioning.jobs.selectors import ALIVE_WITHIN, Foreign, depth, foreign_messages, live_workers, periodic_work
from provisioning.notifications.models import Webhook
from provisioning.notifications.selectors import delivery_status
from provisioning.notifications.services import STANDING

OLD = timedelta(minutes=5)
"""Maximum age of a message that no worker has started."""
DEEP = 5_000


@check("workers", at_once=True)
def workers() -> Iterator[Finding]:
    """Report that there are no workers, and groups of workers without a recent heartbeat."""
    if not live_workers():
        yield Finding("error", "workers", "No worker is running: no queued job is carried out.")
    since = timezone.now() - timedelta(seconds=ALIVE_WITHIN)
    for row in WorkerBeat.objects.filter(beat_at__lt=since).order_by("name"):
        sentence = f"The last heartbeat of this group of workers was at {row.beat_at:%Y-%m-%d %H:%M:%S}."
        yield Finding("warning", f"workers {row.name}", sentence, evidence=row.beat_at)


@check("queue", at_once=True)
def depth_of_queue() -> Iterator[Finding]:
    """Find a queue that is too long, or whose oldest message waits too long."""
    messages = depth()
    if messages.waiting > DEEP:
        sentence = f"{messages.waiting} messages are waiting: there are too few workers, or they are too slow."
        yield Finding("warning", "queue", sentence, evidence="deep")
    if messages.oldest is not None and timezone.now() - messages.oldest > OLD:
        minutes = round((timezone.now() - messages.oldest).total_seconds() / 60)
        sentence = f"The oldest message has been waiting for {minutes} minutes."
        yield Finding("warning", "queue", sentence, evidence=messages.oldest)


@check("foreign_messages")
def strangers() -> Iterator[Finding]:
    """Find messages that no worker would run."""
    for message in foreign_messages():
        sentence = f"It is not one of Novella's jobs: {message.reason}. It is never run."
        yield Finding("error", f"message {message.id}", sentence, "Remove it.", _remove(message), message.id)


def _remove(foreign: Foreign) -> Repair:
    def repair() -> str | None:
        if not any(each.id == foreign.id for each in foreign_messages()):
            return None
        rows.finish(foreign.id)
        return "It was removed."

    return repair


@check("periodic", at_once=True)
def overdue_work() -> Iterator[Finding]:
    """Find periodic work that is overdue or fails although there are workers."""
    if not live_workers():  # already reported
        return
    for job in periodic_work(timezone.now()):
        subject = f"periodic work {job.name}"
        if job.overdue and (job.holder or job.last_run_at):
            last = f"{job.last_run_at:%Y-%m-%d %H:%M:%S}" if job.last_run_at else "never"
            sentence = f"It is due every {job.every:.0f} seconds, and last started: {last}."
            yield Finding("warning", subject, sentence, evidence=job.last_run_at)
        elif job.last_error:
            yield Finding("warning", subject, f"Its last run failed: {job.last_error}", evidence="failed")


@check("webhook", at_once=True)
def webhook() -> Iterator[Finding]:
    """Find a webhook that does not accept notifications, and notifications that were given up."""
    row = Webhook.objects.filter(name=STANDING).first()
    if settings.NOTIFICATION_WEBHOOK and row is not None and row.failures:
        reason = row.last_error.rstrip(".")
        sentence = f"It cannot be reached, or rejects notifications: {reason}. Waiting: {delivery_status().waiting}."
        yield Finding("warning", "webhook", sentence, evidence="unreachable")
    if delivery_status().failed:
        sentence = f"Notifications given up: {delivery_status().failed}; the operators' pages can send them again."
        yield Finding("warning", "webhook", sentence, evidence="given up")
