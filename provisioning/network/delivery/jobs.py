"""What the queue and the clock do so that hosts know their networks."""

import logging
import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from compute_agent.contract.network import FLOATING_IP, ROUTER
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.selectors import is_alive
from provisioning.jobs.registry import job, periodic
from provisioning.network import marks
from provisioning.network.delivery import sending
from provisioning.network.delivery.bearers import bearer
from provisioning.network.delivery.needs import Needs
from provisioning.network.marks import HOST, JOB, TOPIC, mark
from provisioning.network.models import Delivery, DeliveryMark, Router

log = logging.getLogger(__name__)

LOST_AFTER = timedelta(minutes=2)
"""A mark that no job has taken for so long has lost its job."""
MOST_TRIES = 8


@job(JOB, topic=TOPIC)
def deliver(subjects: Sequence[tuple[str, str]]) -> None:
    """Bring the hosts of marked subjects, and marked hosts, to what the records say.

    When that fails, each of several gets a job of its own, so that none holds up the others.
    """
    wanted = [(kind, uuid.UUID(key)) for kind, key in subjects]
    try:
        sending.take(wanted)
    except Exception:
        if len(wanted) == 1:
            raise
        log.exception("Hosts cannot be told of all of %s; each is tried alone.", wanted)
        for each in wanted:
            marks.deliver([each])


@periodic("network.deliver_again", every=15.0)
def deliver_again() -> None:
    """Command anew what failed, waits for a command that is no more, or lost its job; let go of hosts that are gone."""
    now = timezone.now()
    Delivery.objects.exclude(host_id__in=Host.objects.values("id")).delete()
    open_commands = HostCommand.objects.filter(finished_at=None).values("id")
    with transaction.atomic():
        lost = Delivery.objects.select_for_update().exclude(command_id=None).exclude(command_id__in=open_commands)
        for row in lost.order_by("subject_id", "host_id"):
            sending.tell_again(row)
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
    """Let another host bear a router's own address when the one that did is down."""
    silent = [host.name for host in Host.objects.all() if not is_alive(host, timezone.now())]
    for router in Router.objects.filter(host__in=silent):
        hosts = Needs().of_router(router)
        if bearer(router, hosts) not in silent:
            mark(ROUTER, [router.id])
            mark(FLOATING_IP, router.floating_ips.values_list("id", flat=True))


@periodic("network.look_over", every=300.0)
def look_over() -> None:
    """Look over every host and every subject, whatever was missed."""
    mark(HOST, Host.objects.values_list("id", flat=True))
    told = Delivery.objects.exclude(digest="").order_by("kind", "subject_id").values_list("kind", "subject_id")
    for kind, key in told.distinct():
        mark(kind, [key])
