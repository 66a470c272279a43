"""What hosts have that no server there accounts for: kept as they say it, and removed when its server is over."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.conf import settings
from django.db.models import F, QuerySet
from django.utils import timezone

from provisioning.compute.models import Allocation, Belonging, Instance
from provisioning.compute.release import send_destroy
from provisioning.compute.states import VmState
from provisioning.rpc import hosts
from provisioning.rpc.models import HostCommand

MOST = 500
"""Rows kept of one host."""
ASK_AGAIN = timedelta(minutes=5)
"""How long a host that was asked to remove something is left in peace."""
ORDERS_AT_ONCE = 50
Thing = tuple[str, str]
"""Kind and name."""


def record(host_id: uuid.UUID, things: Mapping[Thing, uuid.UUID | None]) -> None:
    """Keep what a host has now, in the caller's transaction: new things are added, those that are gone are forgotten.

    ``things``: kind and name → the server whose it is, None when it bears no name.
    """
    now = timezone.now()
    rows = {(row.kind, row.name): row for row in Belonging.objects.filter(host_id=host_id)}
    kept = dict(list(things.items())[:MOST])
    gone = [row.pk for thing, row in rows.items() if thing not in kept]
    if gone:
        Belonging.objects.filter(pk__in=gone).delete()
    same = [row.pk for thing, row in rows.items() if thing in kept]
    if same:
        Belonging.objects.filter(pk__in=same).update(last_seen_at=now)
    fresh = [
        Belonging(host_id=host_id, kind=kind, name=name, instance_id=owner, first_seen_at=now, last_seen_at=now)
        for (kind, name), owner in kept.items()
        if (kind, name) not in rows
    ]
    Belonging.objects.bulk_create(fresh, ignore_conflicts=True)


def settled() -> QuerySet[Belonging]:
    """Return what two audits have seen: what only one saw may have been on its way."""
    return Belonging.objects.filter(last_seen_at__gt=F("first_seen_at"))


def is_left_over(row: Belonging, instance: Instance) -> bool:
    """Say whether a server is over, or elsewhere, so that nothing of it is needed on the host."""
    if instance.vm_state == VmState.DELETED:
        return True
    if instance.task_state is not None or instance.host_id == row.host_id:
        return False
    return not Allocation.objects.filter(instance_id=instance.id, host_id=row.host_id).exists()


def clear(host_id: uuid.UUID) -> int:
    """Ask a host, in the caller's transaction, to remove what is left of servers that are over; says of how many.

    What no record knows is left alone.
    """
    rows = list(settled().filter(host_id=host_id, instance_id__isnull=False).order_by("id"))
    known = Instance.objects.in_bulk({row.instance_id for row in rows if row.instance_id is not None})
    over = {row.instance_id: known[row.instance_id] for row in rows if _is_over(row, known)}
    asked = set(_asked(host_id, over)) if over else set()
    wanted = [instance for instance in over.values() if instance.id not in asked][:ORDERS_AT_ONCE]
    for instance in wanted:
        ask_to_remove(host_id, instance)
    return len(wanted)


def _is_over(row: Belonging, known: Mapping[uuid.UUID, Instance]) -> bool:
    instance = known.get(row.instance_id) if row.instance_id else None
    return instance is not None and is_left_over(row, instance)


def _asked(host_id: uuid.UUID, ids: Iterable[uuid.UUID | None]) -> Iterable[uuid.UUID]:
    """Yield the servers about which the host was asked lately, or is being asked."""
    wanted = [each for each in ids if each is not None]
    yield from (
        hosts.destroys_awaited().filter(host_id=host_id, instance_id__in=wanted).values_list("instance_id", flat=True)
    )
    since = timezone.now() - max(ASK_AGAIN, timedelta(seconds=2 * settings.AUDIT_INTERVAL))
    orders = HostCommand.objects.filter(host_id=host_id, instance_id__in=wanted, kind="destroy_request")
    yield from orders.filter(created_at__gte=since).values_list("instance_id", flat=True)


def ask_to_remove(host_id: uuid.UUID, instance: Instance) -> None:
    """Order the end of all that a host has of a server; it refuses when it has something newer."""
    send_destroy(instance.id, host_id, instance.attempt, claimed=True)
