"""Leases: servers that are deleted at a stated time unless their lease is extended."""

import logging
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext, cloud_in_project
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, NovellaError
from provisioning.compute.actions.delete import delete
from provisioning.compute.errors import InstanceLockedError
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note, notify
from provisioning.compute.selectors import instance_for
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.identity import policy
from provisioning.launches.models import InstanceLease

BATCH = 100
"""Servers that are deleted or announced in one run."""
UPDATE, OVERRIDE = "novella:leases:update", "novella:leases:override"

log = logging.getLogger(__name__)


def check_days(days: int | None) -> None:
    """Raise InvalidInputError for ``lease_days`` that are out of range."""
    if days is not None and not 1 <= days <= settings.LEASE_MAX_DAYS:
        raise InvalidInputError(f"A lease has 1 to {settings.LEASE_MAX_DAYS} days.", field="lease_days")


def begin(instances: Sequence[Instance], days: int | None, *, fixed: bool) -> None:
    """Write the leases of new servers, in the caller's transaction."""
    if days is None:
        return
    times = _times(days)
    InstanceLease.objects.bulk_create(
        InstanceLease(instance=each, days=days, fixed=fixed, **times) for each in instances
    )


def _times(days: int) -> dict[str, datetime]:
    """Return the columns of a lease that starts now."""
    length = timedelta(days=days)
    end = timezone.now() + length
    return {"ends_at": end, "notify_at": end - min(timedelta(seconds=settings.LEASE_NOTICE), length / 2)}


def extend(context: RequestContext, instance_id: uuid.UUID | str) -> InstanceLease:
    """Start the lease of a server again, with its own length. Raises NotFoundError, ForbiddenError, ConflictError."""
    with transaction.atomic():
        lease = _locked(context, instance_id)
        for column, value in _times(lease.days).items():
            setattr(lease, column, value)
        lease.notified_at = lease.refused_at = None
        lease.save(update_fields=["ends_at", "notify_at", "notified_at", "refused_at"])
        state.announce_all(lease.instance, [{}])
    return lease


def set_lease(context: RequestContext, instance_id: uuid.UUID | str, days: int | None) -> InstanceLease | None:
    """Set a server's lease, which starts now and replaces an earlier lease; None: the lease does not expire.

    Raises NotFoundError, ForbiddenError, InvalidInputError for ``lease_days``, and ConflictError for a fixed lease that
    would become longer.
    """
    check_days(days)
    with transaction.atomic():
        instance = _instance(context, instance_id)
        lease = InstanceLease.objects.select_for_update().filter(instance=instance).first()
        fixed = lease is not None and lease.fixed
        longer = lease is not None and (days is None or days > lease.days)
        if fixed and longer and not policy.allows(context, OVERRIDE):
            raise ConflictError("The launch template requires this lease: it can be extended, but not made longer.")
        if lease is not None:
            lease.delete()
        begin([instance], days, fixed=fixed)
        state.announce_all(instance, [{}])
    return InstanceLease.objects.filter(instance=instance).first()


def _instance(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Lock a server that exists, and check the policy."""
    server = instance_for(context, instance_id)
    policy.enforce(context, UPDATE)
    instance = Instance.objects.select_for_update(no_key=True).get(pk=server.pk)
    if instance.deleted_at is not None:
        raise ConflictError("The server has been deleted.")
    return instance


def _locked(context: RequestContext, instance_id: uuid.UUID | str) -> InstanceLease:
    instance = _instance(context, instance_id)
    lease = InstanceLease.objects.select_for_update().filter(instance=instance).first()
    if lease is None:
        raise NotFoundError("The server has no lease.")
    lease.instance = instance
    return lease


def announce_ending(now: datetime | None = None) -> int:
    """Notify the owners of leases that end soon, once for each; returns their number."""
    now, notified = now or timezone.now(), 0
    for lease in _running().filter(notified_at=None, notify_at__lte=now)[:BATCH]:
        with transaction.atomic():
            if InstanceLease.objects.filter(pk=lease.pk, notified_at=None, ends_at=lease.ends_at).update(
                notified_at=now
            ):
                notify(lease.instance, "lease.ending", Note(_member(lease.instance)))
                state.announce_all(lease.instance, [{}])
                notified += 1
    return notified


def delete_ended(now: datetime | None = None) -> int:
    """Delete the servers whose lease has ended; returns their number.

    A locked server is kept. It is deleted after it is unlocked, unless its lease was extended.
    """
    now, deleted = now or timezone.now(), 0
    InstanceLease.objects.filter(ends_at__lte=now, refused_at=None, instance__locked=True).update(refused_at=now)
    for lease in _running().filter(ends_at__lte=now, instance__locked=False)[:BATCH]:
        try:
            delete(_member(lease.instance), lease.instance_id)
        except InstanceLockedError:  # locked in the meantime
            continue
        except NovellaError as error:
            log.warning("Server %s could not be deleted at the end of its lease: %s", lease.pk, error.message)
        else:
            deleted += 1
    return deleted


def _running() -> QuerySet[InstanceLease]:
    """Return the leases of servers that exist and are not being deleted, the earliest end first."""
    kept = ~Q(instance__vm_state__in=[VmState.DELETED, VmState.SOFT_DELETED])
    idle = Q(instance__task_state=None) | ~Q(instance__task_state__in=[TaskState.DELETING, TaskState.SOFT_DELETING])
    return InstanceLease.objects.filter(kept, idle).select_related("instance__host").order_by("ends_at")


def _member(instance: Instance) -> RequestContext:
    """Return the context in which the cloud acts for the project: as a member, who cannot override locks."""
    return cloud_in_project(instance.project_id, roles=frozenset({"member", "reader"}))
