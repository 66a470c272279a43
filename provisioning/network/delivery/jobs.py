"""The job and the periodic tasks that send documents to hosts."""

import logging
import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from compute_agent.contract.network import FLOATING_IP, ROUTER
from provisioning.hosts import commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.restored import LEAP
from provisioning.hosts.selectors import is_alive
from provisioning.jobs.registry import job, periodic
from provisioning.network.delivery import sending
from provisioning.network.delivery.needs import Needs, bearer
from provisioning.network.models import Delivery, DeliveryMark, Router
from provisioning.network.records import marks
from provisioning.network.records.marks import HOST, JOB, TOPIC, mark

log = logging.getLogger(__name__)

LOST_AFTER = timedelta(minutes=2)
"""Age at which the job of a mark counts as lost, so that another job is queued."""
MOST_TRIES = 8


@job(JOB, topic=TOPIC)
def deliver(subjects: Sequence[tuple[str, str]]) -> None:
    """Send the documents of marked subjects, and everything that marked hosts need.

    If this fails for several marks together, each of them gets its own job, so that one of them cannot block the
    others.
    """
    keys = [(kind, uuid.UUID(key)) for kind, key in subjects]
    try:
        sending.send_marked(keys)
    except Exception:
        if len(keys) == 1:
            raise
        log.exception("Documents of %s cannot be sent together; each is retried alone.", keys)
        for each in keys:
            marks.deliver([each])


@periodic("network.deliver_again", every=15.0)
def deliver_again() -> None:
    """Retry failed deliveries and those whose command or job was lost; remove the deliveries of deleted hosts."""
    now = timezone.now()
    Delivery.objects.exclude(host_id__in=Host.objects.values("id")).delete()
    open_commands = HostCommand.objects.filter(finished_at=None).values("id")
    with transaction.atomic():
        lost = Delivery.objects.select_for_update().exclude(command_id=None).exclude(command_id__in=open_commands)
        for row in lost.order_by("subject_id", "host_id"):
            sending.send_again(row)
            mark(row.kind, [row.subject_id])
    for row in Delivery.objects.filter(~Q(error=""), command_id=None, digest=sending.UNKNOWN):
        wait = timedelta(seconds=min(15 * 2 ** min(row.tries, MOST_TRIES), 3600))
        if row.changed_at is None or row.changed_at + wait <= now:
            mark(row.kind, [row.subject_id])
    waiting = Delivery.objects.filter(again=True, command_id=None)
    for kind, key in waiting.order_by("kind", "subject_id").values_list("kind", "subject_id").distinct():
        mark(kind, [key])
    marks.deliver(list(DeliveryMark.objects.filter(marked_at__lt=now - LOST_AFTER).values_list("kind", "subject_id")))


@periodic("network.bearers", every=15.0)
def move_bearers() -> None:
    """Move routers' external addresses from hosts that are down to other hosts."""
    silent = [host.name for host in Host.objects.all() if not is_alive(host, timezone.now())]
    for router in Router.objects.filter(host__in=silent):
        hosts = Needs().of_router(router)
        if bearer(router, hosts) not in silent:
            mark(ROUTER, [router.id])
            mark(FLOATING_IP, router.floating_ips.values_list("id", flat=True))


@periodic("network.look_over", every=300.0)
def look_over() -> None:
    """Mark every host and every delivered subject, in case a change was missed."""
    mark(HOST, Host.objects.values_list("id", flat=True))
    sent = Delivery.objects.exclude(digest="").order_by("kind", "subject_id").values_list("kind", "subject_id")
    for kind, key in sent.distinct():
        mark(kind, [key])


def raise_numbers() -> Iterable[str]:
    """Increase the generation of every document, so that each host accepts the version of the records.

    Unfinished commands are withdrawn: a host that has finished one of them since the backup does not report its result
    again. Yields a sentence for the operator.
    """
    rows = Delivery.objects.all()
    many = rows.update(copied=Coalesce("copied", "generation"), generation=F("generation") + LEAP)
    commands.withdraw(HostCommand.objects.filter(subject_kind__in=sending.ORDER))
    rows.exclude(command_id=None).update(command_id=None, digest=sending.UNKNOWN, again=False)
    yield f"Networks, security groups, routers and floating IPs: {many} numbers raised. They are sent to hosts again."
