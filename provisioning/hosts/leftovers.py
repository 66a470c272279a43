"""Leftovers: resources on hosts that no record accounts for, as audits report them, for later removal."""

import uuid
from collections.abc import Mapping
from itertools import islice

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from compute_agent.contract.messages import MOST_LEFTOVERS, ResourceAudit
from provisioning.common.database.retry import when_broken_off
from provisioning.common.values.ids import read_id
from provisioning.common.values.text import one_line
from provisioning.hosts.models import Leftover
from provisioning.hosts.subjects import HANDLERS

MOST_GENERATION = 2**63
MOST = 500
"""Limit of recorded leftovers for each host."""
Thing = tuple[str, str]
"""Kind and name of a leftover."""
Owner = tuple[str, uuid.UUID | None, int | None]
"""The subject that a leftover belongs to: its kind, its id (None if the leftover's name contains no id), and the newest
generation of it that the host has seen (None: unknown).
"""


@when_broken_off
def record_audit(host_id: uuid.UUID, report: ResourceAudit) -> None:
    """Record the leftovers in a host's audit, and let each handler remove leftovers of its own kind of subject.

    Guests without a record are recorded as leftovers too. An audit without a list of leftovers changes nothing.
    """
    if report.leftovers is None:
        return
    things: dict[Thing, Owner] = {}
    for each in islice(report.leftovers, MOST_LEFTOVERS):
        things[one_line(each.kind, 20), one_line(each.name, 255)] = (
            one_line(each.subject_kind, 20),
            read_id(each.subject_id),
            each.generation if each.generation is not None and 0 <= each.generation < MOST_GENERATION else None,
        )
    with transaction.atomic():
        for handler in HANDLERS:
            unknown = sorted(handler.unknown(report.guests))
            things |= {("guest", str(subject_id)): (handler.kind, subject_id, None) for subject_id in unknown}
        record(host_id, things)
        named = list(settled().filter(host_id=host_id, subject_id__isnull=False).order_by("id"))
        for handler in HANDLERS:
            mine = [row for row in named if row.subject_kind == handler.kind]
            if mine:
                handler.clear(host_id, mine)


def record(host_id: uuid.UUID, things: Mapping[Thing, Owner]) -> None:
    """Record the current leftovers of a host, and delete the rows of others, in the caller's transaction."""
    now = timezone.now()
    rows = {(row.kind, row.name): row for row in Leftover.objects.filter(host_id=host_id)}
    kept = dict(list(things.items())[:MOST])
    gone = [row.pk for thing, row in rows.items() if thing not in kept]
    if gone:
        Leftover.objects.filter(pk__in=gone).delete()
    same = [row.pk for thing, row in rows.items() if thing in kept]
    if same:
        Leftover.objects.filter(pk__in=same).update(last_seen_at=now)
    for thing, row in rows.items():
        if thing in kept and kept[thing][2] != row.generation:
            Leftover.objects.filter(pk=row.pk).update(generation=kept[thing][2])
    fresh = [
        Leftover(
            host_id=host_id,
            kind=kind,
            name=name,
            subject_kind=owner,
            subject_id=subject_id,
            generation=generation,
            first_seen_at=now,
            last_seen_at=now,
        )
        for (kind, name), (owner, subject_id, generation) in kept.items()
        if (kind, name) not in rows
    ]
    Leftover.objects.bulk_create(fresh, ignore_conflicts=True)


def settled() -> QuerySet[Leftover]:
    """Return leftovers that two audits have seen; after a single audit they may be transient."""
    return Leftover.objects.filter(last_seen_at__gt=F("first_seen_at"))
