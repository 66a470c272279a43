"""Guests that are newer than their records, because the records lost changes (a restored backup, a database failover).

An attempt is recorded before a host receives it. So a guest is newer if

* its attempt is higher than the record's,
* its attempt is the record's, but the record has no host, or
* its attempt belongs to another host according to the history.

A difference from the record never causes the removal of a newer guest. Unless the record follows the guest, the guest
is undecided (``OPEN``) until an operator adopts or destroys it, or its server is deleted.
"""

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import UUIDField
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.models import Instance, InstanceActionEvent, NewerGuest
from provisioning.compute.records import host_commands
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts import commands, restored
from provisioning.hosts.models import Host
from provisioning.hosts.restored import LEAP

ATTESTED = timedelta(days=1)
"""Time after a restore in which records follow newer guests on other hosts automatically."""
MOST = 2**31 - 1 - 2 * LEAP
"""Highest attempt accepted from a host, so that later attempts still fit into the column."""
OPEN, FOLLOWED, REMOVED, GONE = NewerGuest.Outcome


def is_newer(instance: Instance, host_id: uuid.UUID, attempt: int) -> bool:
    """Whether a guest with this attempt on the host proves that the instance's record lost changes."""
    if attempt > instance.attempt:
        return True
    if instance.vm_state != VmState.DELETED and attempt == instance.attempt and instance.host_id is None:
        return True
    return was_lost(instance, host_id, attempt) or _was_another_hosts(instance, host_id, attempt)


def _was_another_hosts(instance: Instance, host_id: uuid.UUID, attempt: int) -> bool:
    """Whether the history contains this attempt on other hosts only; the record of its command to this host is lost."""
    if instance.host_id == host_id and instance.vm_state != VmState.DELETED:
        return False
    steps = InstanceActionEvent.objects.filter(action__instance_id=instance.id, attempt=attempt).exclude(host="")
    hosts = set(steps.values_list("host", flat=True))
    if not hosts or Host.objects.filter(id=host_id, name__in=hosts).exists():
        return False
    followed = NewerGuest.objects.filter(instance_id=instance.id, host_id=host_id, attempt=attempt, outcome=FOLLOWED)
    return not followed.exists()


def was_lost(instance: Instance, host_id: uuid.UUID, attempt: int) -> bool:
    """Whether this attempt on the host was assigned after the backup from which the records were restored."""
    for above, below, holder in instance.lost_attempts:
        if above < attempt < below:
            return True
        if attempt == above and holder != str(host_id) and instance.vm_state != VmState.DELETED:
            return True
    return False


def is_current(instance: Instance, attempt: int) -> bool:
    """Whether a guest with this attempt on the recorded host is the recorded guest.

    An attempt between ``guest_attempt`` and the record's belongs to a command that would have changed the guest, but
    failed.
    """
    return (instance.guest_attempt or instance.attempt) <= attempt <= instance.attempt


def seen_running(instance: Instance, attempt: int) -> None:
    """Record that a guest runs although no report has ended its build; the report may have been lost."""
    same = Instance.objects.filter(id=instance.id, attempt=instance.attempt, task_state=TaskState.SPAWNING)
    if attempt == instance.attempt:
        same.update(guest_attempt=attempt)


def note(
    host_id: uuid.UUID,
    instance: Instance,
    attempt: int,
    power_state: int,
    outcome: NewerGuest.Outcome,
    *,
    record_attempt: int | None = None,
) -> None:
    """Record the guest for operators, in the caller's transaction. ``record_attempt``: the record's attempt before the
    record followed the guest.
    """
    now = timezone.now()
    values = {
        "attempt": attempt,
        "power_state": max(0, min(power_state, 2**15 - 1)),
        "outcome": outcome,
        "last_seen_at": now,
    }
    rows = NewerGuest.objects.filter(instance=instance, host_id=host_id)
    known = rows.first()
    if known is None:
        older = instance.attempt if record_attempt is None else record_attempt
        before = {"record_attempt": older, "record_state": str(instance.vm_state)}
        before["record_host"] = instance.host_name
        NewerGuest.objects.create(instance=instance, host_id=host_id, first_seen_at=now, **values, **before)
        return
    if (known.attempt, known.outcome) != (attempt, outcome):
        values["acknowledged_at"] = None
    rows.update(**values)


def open_of(instance_id: uuid.UUID) -> list[NewerGuest]:
    """Return the newer guests of an instance that are still undecided."""
    return _OPEN_OF(instance_id=instance_id)


def undecided_among(ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the instances among ``ids`` with a newer guest that is still undecided."""
    return set(NewerGuest.objects.filter(instance_id__in=ids, outcome=OPEN).values_list("instance_id", flat=True))


_OPEN_OF = Prepared(
    lambda instance_id: (
        NewerGuest.objects.select_related("host")
        .filter(instance_id=instance_id, outcome=OPEN)
        .order_by("-attempt", "id")
    ),
    instance_id=UUIDField(),
)


def gone(host_id: uuid.UUID, seen: set[uuid.UUID]) -> None:
    """Close the undecided newer guests that the host no longer has; ``seen`` are the guests it reports."""
    missing = NewerGuest.objects.filter(host_id=host_id, outcome=OPEN).exclude(instance_id__in=seen)
    missing.update(outcome=GONE, last_seen_at=timezone.now())


def remove(row: NewerGuest, instance: Instance) -> None:
    """Destroy an undecided newer guest, by a command with an attempt that its host accepts."""
    NewerGuest.objects.filter(pk=row.pk).update(outcome=REMOVED, acknowledged_at=timezone.now())
    send_destroy(instance.id, row.host_id, max(instance.attempt, row.attempt + 1))


def remove_all(instance: Instance) -> None:
    """Destroy all undecided newer guests of a server that is being deleted."""
    for row in open_of(instance.id):
        remove(row, instance)


def hold_back(host_id: uuid.UUID, instance: Instance) -> None:
    """Withdraw the host's unfinished commands about a server, because they come from outdated records."""
    commands.withdraw(host_commands.unfinished(instance.id).filter(host_id=host_id))


def attested_since() -> datetime | None:
    """Return when an operator last restored the records, if within ``ATTESTED``; otherwise None."""
    last = restored.latest()
    return last.at if last is not None and last.at >= timezone.now() - ATTESTED else None


def is_as_copied(instance: Instance) -> bool:
    """Whether the records were restored recently and the server has not changed since.

    Only then is a host's report sufficient to assign the server to this host; otherwise nothing proves that records
    were lost.
    """
    if attested_since() is None:
        return False
    return bool(instance.lost_attempts) and instance.attempt == instance.lost_attempts[-1][1]


def may_be_followed(instance: Instance) -> bool:
    """Whether the record can follow a guest on another host.

    It can if the server has run before and has no task other than a build, or if it is being built for the first time
    and the command was sent to a host: its ports exist then.
    """
    if instance.vm_state == VmState.BUILDING:
        return instance.task_state == TaskState.SPAWNING
    ran = instance.launched_at is not None and instance.vm_state != VmState.DELETED
    return ran and instance.task_state in (None, TaskState.UNSHELVING, TaskState.SPAWNING)
