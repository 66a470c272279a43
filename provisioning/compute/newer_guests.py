"""Guests that are newer than their records.

The record has an attempt before any host has.  So a guest whose attempt is higher than its record's, or the same while
the record says that no host has it, or one that the history gave to another host, proves that records are lost: a copy
was restored, or the last transactions before a failure.  Such a guest is never removed on that ground.
"""

import uuid
from datetime import datetime, timedelta

from django.utils import timezone

from provisioning.compute import host_commands
from provisioning.compute.models import Instance, InstanceActionEvent, NewerGuest
from provisioning.compute.release import send_destroy
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts import commands, restored
from provisioning.hosts.models import Host
from provisioning.hosts.restored import LEAP

ATTESTED = timedelta(days=1)
"""How long after a restore records follow newer guests on other hosts without being asked."""
MOST = 2**31 - 1 - 2 * LEAP
"""The highest number that is believed of a host: there must be room above it."""
OPEN, FOLLOWED, REMOVED, GONE = NewerGuest.Outcome


def is_newer(instance: Instance, host_id: uuid.UUID, attempt: int) -> bool:
    """Return whether a guest of this attempt on the host proves that the instance's record has lost something."""
    if attempt > instance.attempt:
        return True
    if instance.vm_state != VmState.DELETED and attempt == instance.attempt and instance.host_id is None:
        return True
    return was_lost(instance, host_id, attempt) or _was_another_hosts(instance, host_id, attempt)


def _was_another_hosts(instance: Instance, host_id: uuid.UUID, attempt: int) -> bool:
    """Return whether the history knows this attempt on other hosts only: the host got it by records that are lost."""
    if instance.host_id == host_id and instance.vm_state != VmState.DELETED:
        return False
    steps = InstanceActionEvent.objects.filter(action__instance_id=instance.id, attempt=attempt).exclude(host="")
    hosts = set(steps.values_list("host", flat=True))
    if not hosts or Host.objects.filter(id=host_id, name__in=hosts).exists():
        return False
    followed = NewerGuest.objects.filter(instance_id=instance.id, host_id=host_id, attempt=attempt, outcome=FOLLOWED)
    return not followed.exists()


def was_lost(instance: Instance, host_id: uuid.UUID, attempt: int) -> bool:
    """Return whether an attempt on a host is one that was given out after the copy which was restored later."""
    for above, below, holder in instance.lost_attempts:
        if above < attempt < below:
            return True
        if attempt == above and holder != str(host_id) and instance.vm_state != VmState.DELETED:
            return True
    return False


def is_current(instance: Instance, attempt: int) -> bool:
    """Return whether an attempt is that of the guest which the record means, on the record's own host.

    Between the guest's last known number and the record's are those of commands to make it again that went wrong.
    """
    return (instance.guest_attempt or instance.attempt) <= attempt <= instance.attempt


def seen_running(instance: Instance, attempt: int) -> None:
    """Remember that a guest runs whose build has not been reported as finished: the report may be what is lost."""
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
    """Record it for the operators, in the caller's transaction; ``record_attempt``: the record's before it followed."""
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
    """Return the guests of an instance that are left alone."""
    rows = NewerGuest.objects.select_related("host").filter(instance_id=instance_id, outcome=OPEN)
    return list(rows.order_by("-attempt", "id"))


def gone(host_id: uuid.UUID, seen: set[uuid.UUID]) -> None:
    """Hear which guests a host has now: those that are not among them any more need nobody's decision."""
    missing = NewerGuest.objects.filter(host_id=host_id, outcome=OPEN).exclude(instance_id__in=seen)
    missing.update(outcome=GONE, last_seen_at=timezone.now())


def remove(row: NewerGuest, instance: Instance) -> None:
    """Order the end of a guest that was left alone, under a number that its host takes."""
    NewerGuest.objects.filter(pk=row.pk).update(outcome=REMOVED, acknowledged_at=timezone.now())
    send_destroy(instance.id, row.host_id, max(instance.attempt, row.attempt + 1))


def remove_all(instance: Instance) -> None:
    """Order the end of every guest that was left alone: their server is deleted."""
    for row in open_of(instance.id):
        remove(row, instance)


def hold_back(host_id: uuid.UUID, instance: Instance) -> None:
    """Withdraw what a host was ordered about a server by older records."""
    commands.withdraw(host_commands.unfinished(instance.id).filter(host_id=host_id))


def attested_since() -> datetime | None:
    """Return when an operator has restored the records lately; None: nobody attests that records are lost."""
    last = restored.latest()
    return last.at if last is not None and last.at >= timezone.now() - ATTESTED else None


def is_as_copied(instance: Instance) -> bool:
    """Return whether an operator has restored the records lately, and nothing has been done with the server since.

    Only then a host's word is enough to give it the server: later nobody attests that records are lost.
    """
    if attested_since() is None:
        return False
    return bool(instance.lost_attempts) and instance.attempt == instance.lost_attempts[-1][1]


def may_be_followed(instance: Instance) -> bool:
    """Return whether the record can follow a guest on another host.

    It can when the server ran, and nothing but a build is done with it; and when it is being built, and a
    host has been told to build it: it has its ports then.
    """
    if instance.vm_state == VmState.BUILDING:
        return instance.task_state == TaskState.SPAWNING
    ran = instance.launched_at is not None and instance.vm_state != VmState.DELETED
    return ran and instance.task_state in (None, TaskState.UNSHELVING, TaskState.SPAWNING)
