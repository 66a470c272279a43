"""Delivery of networks, routers, floating IPs and security groups to hosts."""

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from django.db.models import DateTimeField, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from compute_agent.contract.messages import DOCUMENTS
from provisioning.common.database.prepared import Prepared
from provisioning.doctor.finding import Finding, check
from provisioning.doctor.repairs import alone
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.selectors import long_ago, seen_since
from provisioning.jobs.selectors import waiting_jobs
from provisioning.network.delivery.needs import Needs
from provisioning.network.delivery.sending import send_again
from provisioning.network.models import Delivery, DeliveryMark, Network
from provisioning.network.records.marks import HOST, JOB, deliver, mark

PATIENCE = timedelta(minutes=5)
"""Maximum age of an undelivered change; the scheduler queues lost jobs again after two minutes."""
TRIES = 3
"""Failures of one delivery after which it is reported."""
WORDS = {
    "network": "network",
    "ports": "network",
    "router": "router",
    "floating_ip": "floating IP",
    "security_group": "security group",
}


@check("delivery_marks")
def lost_jobs() -> Iterator[Finding]:
    """Find changes whose delivery job is lost, so that no host receives them."""
    for found in _lost_marks().order_by("marked_at", "id"):
        sentence = f"It changed at {found.marked_at:%Y-%m-%d %H:%M:%S}, and no host was notified since."
        subject = f"{WORDS.get(found.kind, found.kind)} {found.subject_id}"
        yield Finding("error", subject, sentence, "Queue the job.", alone(_cast(found)), found.pk)


def _lost_marks() -> QuerySet[DeliveryMark]:
    return DeliveryMark.objects.filter(marked_at__lt=timezone.now() - PATIENCE)


def _cast(delivery_mark: DeliveryMark) -> Callable[[], str | None]:
    def work() -> str | None:
        if not _lost_marks().filter(pk=delivery_mark.pk).exists():
            return None
        deliver([(delivery_mark.kind, delivery_mark.subject_id)])
        return "The job is queued."

    return work


FAILING = Prepared(lambda: Delivery.objects.filter(tries__gte=TRIES).exclude(error="").order_by("id"))
WITHOUT_COMMAND = Prepared(lambda before: _without_command(before).order_by("id"), before=DateTimeField())


@check("deliveries")
def stuck() -> Iterator[Finding]:
    """Find deliveries that fail repeatedly, that wait for a command that no longer exists, or that were never sent."""
    failing, without = FAILING(), WITHOUT_COMMAND(before=timezone.now() - PATIENCE)
    names = dict(Host.objects.values_list("id", "name")) if failing or without else {}
    for row in failing:
        subject = f"host {names.get(row.host_id, row.host_id)}"
        sentence = f"It failed to apply the {_named(row)} after {row.tries} attempts: {row.error}"
        repair = alone(_mark_again(row.kind, row.subject_id, partial(_fails, row)))
        yield Finding("warning", subject, sentence, "Send it again now.", repair, (row.kind, row.subject_id))
    for row in without:
        subject = f"host {names.get(row.host_id, row.host_id)}"
        sentence = f"The {_named(row)} was sent to it by a command that no longer exists: no result is expected."
        yield Finding("error", subject, sentence, "Send it again.", alone(_again(row)), (row.pk, row.generation))
    yield from _undelivered()


AHEAD = Prepared(
    lambda: Host.objects.filter(id__in=Delivery.objects.exclude(newer_at=None).values("host_id")).order_by("name")
)
RETAINED = Prepared(lambda: Delivery.objects.filter(kept=True).order_by("host_id", "kind", "subject_id"))


@check("newer_documents")
def newer() -> Iterator[Finding]:
    """Find hosts with newer documents than the database, and documents that hosts keep for guests without a record.

    A document is the spec of a network, router, security group or floating IP. Each finding proves that the database
    lost changes: an older copy of it was restored, or a failover lost the last transactions.
    """
    for host in AHEAD():
        rows = Delivery.objects.filter(host_id=host.id).exclude(newer_at=None)
        last = max(row.newer_at for row in rows if row.newer_at is not None)
        sentence = f"It had newer versions than the records of {len(rows)} networks, routers, groups or floating IPs"
        sentence += f", last at {last:%Y-%m-%d %H:%M:%S}: records are lost. The recorded versions are sent again."
        repair = alone(partial(_acknowledge, host.id))
        yield Finding("warning", f"host {host.name}", sentence, "Acknowledge it, and stop reporting it.", repair, last)
    kept = RETAINED()
    names = dict(Host.objects.values_list("id", "name")) if kept else {}
    taken = _vnis_of_others(kept)
    for row in kept:
        sentence = f"It keeps the {_named(row)} for a guest that, according to the records, is not on this host."
        sentence += " It is not touched."
        if row.vni is not None and row.vni in taken:
            sentence += f" Its VNI {row.vni} now belongs to the network {taken[row.vni]}: remove that guest first."
        yield Finding("warning", f"host {names.get(row.host_id, row.host_id)}", sentence, evidence=_named(row))


def _vnis_of_others(kept: list[Delivery]) -> dict[int, uuid.UUID]:
    """Return VNI → id of another recorded network that uses the VNI of a kept network."""
    mine = {row.subject_id for row in kept}
    numbers = {row.vni for row in kept if row.vni is not None}
    others = Network.objects.filter(network_type="vxlan", segmentation_id__in=numbers).exclude(id__in=mine)
    return {number: key for key, number in others.values_list("id", "segmentation_id") if number is not None}


def _acknowledge(host_id: uuid.UUID) -> str | None:
    many = Delivery.objects.filter(host_id=host_id).exclude(newer_at=None).update(newer_at=None)
    return "It is no longer reported." if many else None


def _named(row: Delivery) -> str:
    return f"{WORDS.get(row.kind, row.kind)} {row.subject_id}"


def _fails(row: Delivery) -> bool:
    return Delivery.objects.filter(pk=row.pk, tries__gte=TRIES).exclude(error="").exists()


def _mark_again(kind: str, key: uuid.UUID, wrong: Callable[[], bool]) -> Callable[[], str | None]:
    def work() -> str | None:
        if not wrong():
            return None
        mark(kind, [key])
        return "A job was queued that sends the differences."

    return work


def _without_command(before: Any) -> QuerySet[Delivery]:
    there = HostCommand.objects.filter(id=OuterRef("command_id"), finished_at=None)
    old = Q(changed_at=None) | Q(changed_at__lt=before)
    return Delivery.objects.filter(old, command_id__isnull=False).exclude(Exists(there))


def _again(delivery: Delivery) -> Callable[[], str | None]:
    def work() -> str | None:
        rows = _without_command(timezone.now() - PATIENCE)
        row = rows.select_for_update(of=("self",)).filter(pk=delivery.pk).first()
        if row is None:
            return None
        send_again(row)
        mark(row.kind, [row.subject_id])
        return "It is sent again."

    return work


WITH_DOCUMENTS = Prepared(
    lambda since: Host.objects.filter(seen_since(since), contract_version__gte=DOCUMENTS, connected=True).order_by(
        "name"
    ),
    since=DateTimeField(),
)
"""Hosts that are up, and whose agents accept documents."""


def _undelivered() -> Iterator[Finding]:
    """Find hosts that were not sent all documents that they need, or have documents that they no longer need.

    Does nothing while a delivery is pending.
    """
    if DeliveryMark.objects.exists() or next(waiting_jobs(JOB), None) is not None:
        return
    for host in WITH_DOCUMENTS(since=long_ago(timezone.now())):
        missing, needless = _differences(host)
        if missing or needless:
            sentence = "Documents of networks, routers, groups or floating IPs that it needs and was not sent:"
            sentence += f" {len(missing)}; documents that it no longer needs: {len(needless)}."
            repair = alone(_mark_again(HOST, host.id, partial(_differs, host)))
            evidence = (sorted(missing, key=str), sorted(needless, key=str))
            yield Finding("error", f"host {host.name}", sentence, "Send the differences.", repair, evidence)


def _differs(host: Host) -> bool:
    return any(_differences(host))


def _differences(host: Host) -> tuple[set[tuple[str, uuid.UUID]], set[tuple[str, uuid.UUID]]]:
    rows = Delivery.objects.filter(host_id=host.id)
    sent = set(rows.exclude(digest="").values_list("kind", "subject_id"))
    going = set(rows.exclude(command_id=None).values_list("kind", "subject_id"))
    needed = Needs().of_host(host)
    return needed - sent - going, sent - needed - going
