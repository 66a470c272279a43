"""Compares the guests that a host reports with the records.

Guests of older attempts are destroyed, records follow newer guests, power states are updated, and owners are notified
when their guest is missing.
"""

import logging
import uuid
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery, UUIDField
from django.utils import timezone

from compute_agent.contract.messages import GuestState
from compute_agent.contract.power import PowerState
from provisioning.common.context import new_request_id
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.database.retry import when_broken_off
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.allocations import second_of
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.inbound.reports import power_differs, power_state_of, sync_power
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.records import host_commands
from provisioning.compute.records.migration_records import OPEN
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.compute.upkeep import adoption

log = logging.getLogger(__name__)

MOST_NAMED = 10
"""Maximum number of guests of an audit that are logged by name."""
SETTLED = timedelta(seconds=60)
"""An audit may be older than the last report about an instance; instances changed within this time are skipped."""
_LIVE = (
    VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED, VmState.RESCUED, VmState.RESIZED,
    VmState.SHELVED, VmState.SOFT_DELETED,
)  # fmt: skip
_MOVED = (VmState.ACTIVE, VmState.PAUSED)
"""States that become ``stopped`` if the host no longer has a running guest; other states do not change."""
GONE = (
    "Its guest is missing on the host: it was removed outside the cloud. Starting the server creates the guest"
    " again from its disk, if the disk still exists; otherwise rebuild or delete it."
)


@when_broken_off
def compare(host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
    """Compare a host's guests with the records and resolve differences.

    A guest of an instance that is deleted, was never built or is on another host is destroyed, unless it is newer than
    the record (``newer_guests``). For an instance without a task the guest's power state is recorded; without a guest
    it is stopped. ``complete`` (a ``Hello``): the list is current; the list of an audit may be stale, so that recently
    changed instances are skipped. Guests of unknown instances are only logged, because records may have been lost.
    """
    seen: dict[uuid.UUID, GuestState] = {}
    senseless = []
    for guest in guests:
        try:
            seen[uuid.UUID(guest.instance_id)] = guest
        except ValueError:
            senseless.append(repr(guest.instance_id[:80]))
    strangers = []
    with transaction.atomic():
        quiet = None if complete else timezone.now() - SETTLED
        known = {row[0]: _RecordedState(*row) for row in _KNOWN(ids=sorted(seen))}
        odd = {key for key, guest in seen.items() if key not in known or _differs(known[key], guest, host_id, quiet)}
        rows = {row.id: row for row in Instance.objects.select_related("host").filter(Among("id", odd))} if odd else {}
        for instance_id in sorted(odd):
            instance, guest = rows.get(instance_id), seen[instance_id]
            if instance is None:
                strangers.append(str(instance_id))
            else:
                _compare_one(host_id, instance, guest, quiet)
        missing = set(_HERE(host_id=host_id)) - seen.keys()
        if missing:
            _process_missing(host_id, missing, quiet)
        if complete:
            newer_guests.gone(host_id, set(seen))
    _log_many("Host %s has %s guests of unknown instances; they stay unchanged: %s", host_id, strangers)
    _log_many("Host %s has %s guests with invalid ids: %s", host_id, senseless)


def _compare_one(host_id: uuid.UUID, instance: Instance, guest: GuestState, quiet: datetime | None) -> None:
    """Process a guest that differs from its record."""
    second = second_of(instance.id)
    of_second = second is not None and second.host_id == host_id != instance.host_id
    if second is not None and of_second and guest.attempt <= instance.attempt:
        if second.migration.status not in OPEN:
            _remove(host_id, instance, guest)
        return
    if newer_guests.is_newer(instance, host_id, guest.attempt):
        adoption.handle_newer(host_id, instance, guest)
    elif instance.task_state == TaskState.EVACUATING:
        return  # this may be the host that it leaves, and no other host has it yet
    elif instance.host_id != host_id or instance.vm_state == VmState.DELETED:
        _remove(host_id, instance, guest)
    elif instance.task_state == TaskState.SPAWNING:
        newer_guests.seen_running(instance, guest.attempt)
    elif quiet is None or instance.updated_at < quiet:
        if not newer_guests.is_current(instance, guest.attempt):
            if not instance.lost_attempts or instance.task_state is not None:
                return  # a report about an older guest does not describe the recorded one
            state.update(instance, {"guest_attempt": guest.attempt})
        sync_power(instance, power_state_of(guest.power_state))


def _log_many(text: str, host_id: uuid.UUID, names: Sequence[str]) -> None:
    """Log the reported guests in one line of limited length, so that a faulty host cannot flood the log."""
    if names:
        log.warning(
            text, host_id, len(names), ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
        )


class _RecordedState(NamedTuple):
    """The columns of an instance for the comparison."""

    id: uuid.UUID
    host_id: uuid.UUID | None
    vm_state: str
    task_state: str | None
    power_state: int
    attempt: int
    guest_attempt: int | None
    updated_at: datetime


_KNOWN = Prepared(lambda ids: Instance.objects.filter(Among("id", ids)).values_list(*_RecordedState._fields), ids=Ids())
_HERE = Prepared(
    lambda host_id: Instance.objects.filter(host_id=host_id, vm_state__in=_LIVE, task_state=None).values_list(
        "id", flat=True
    ),
    host_id=UUIDField(),
)


def _differs(known: _RecordedState, guest: GuestState, host_id: uuid.UUID, quiet: datetime | None) -> bool:
    """Whether a guest differs from its record. Most do not, so that their instances are not loaded."""
    if known.host_id != host_id or known.vm_state == VmState.DELETED:
        return True
    if guest.attempt > known.attempt:
        return True
    if known.task_state == TaskState.SPAWNING:
        is_new = guest.power_state == PowerState.RUNNING and guest.attempt != known.guest_attempt
        return guest.attempt != known.attempt or is_new
    if known.task_state is not None or (quiet and known.updated_at >= quiet):
        return False
    if guest.attempt not in (known.attempt, known.guest_attempt):
        return True
    return power_differs(VmState(known.vm_state), known.power_state, power_state_of(guest.power_state))


def _process_missing(host_id: uuid.UUID, missing: Collection[uuid.UUID], quiet: datetime | None) -> None:
    """Process instances without a guest on their host."""
    here = Instance.objects.select_related("host").filter(host_id=host_id, vm_state__in=_LIVE, task_state=None)
    absent = here.filter(Among("id", missing))
    lost = absent.filter(Q(vm_state__in=_MOVED) | ~Q(power_state=PowerState.NOSTATE.value))
    for instance in (lost.filter(updated_at__lt=quiet) if quiet else lost).order_by("id"):
        log.warning("Host %s no longer has a guest of instance %s.", host_id, instance.id)
        sync_power(instance, PowerState.NOSTATE)
        adoption.settle(instance)
    _notify_owners(absent)


def _notify_owners(absent: QuerySet[Instance]) -> None:
    """Write an action record about the missing guest, once, for the owners; later actions are listed after it."""
    newest = InstanceAction.objects.filter(instance_id=OuterRef("id")).order_by("-started_at", "-id")
    gone = absent.filter(power_state=PowerState.NOSTATE.value)
    unnotified = gone.annotate(newest=Subquery(newest.values("message")[:1]))
    unnotified = unnotified.filter(Q(newest=None) | ~Q(newest=GONE))
    now = timezone.now()
    InstanceAction.objects.bulk_create(
        InstanceAction(
            instance_id=instance.id,
            action="stop",
            request_id=new_request_id(),
            project_id=instance.project_id,
            started_at=now,
            finished_at=now,
            message=GONE,
        )
        for instance in unnotified.order_by("id")
    )


def _remove(host_id: uuid.UUID, instance: Instance, guest: GuestState) -> None:
    """Send a destroy command, unless one is unfinished."""
    if not host_commands.destroys_awaited().filter(host_id=host_id, subject_id=instance.id).exists():
        log.warning("Host %s still has a guest of instance %s (%s).", host_id, instance.id, instance.vm_state)
        send_destroy(instance.id, host_id, max(instance.attempt, guest.attempt + 1))
