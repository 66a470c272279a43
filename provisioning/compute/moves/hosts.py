"""The two hosts of a move: claim the target, exchange the hosts in the record, and release one of them."""

from typing import Any

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.compute.flavors.sizes import room_of
from provisioning.compute.host_link.allocations import claim_first, exchange, record_second, release_second, second_of
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.launch.decisions import SchedulingAttempt, record_decision
from provisioning.compute.models import Instance, Migration
from provisioning.compute.moves.targets import MoveRequest
from provisioning.compute.records.migration_records import announce, open_migration
from provisioning.hosts.models import Host

__all__ = ["claim_target", "exchange", "is_held_by_second", "leave_second", "release_second", "second_of"]


def claim_target(
    context: RequestContext,
    request: MoveRequest,
    attempt: SchedulingAttempt,
    kind: str,
    *,
    status: str = "pre-migrating",
    action: str = "",
) -> Migration | None:
    """Claim the first ranked host that still has the resources, and write the records of the move: the migration with
    both hosts, the second allocation, and the decision. Returns None, with only the decision written, if no host has
    them.

    Call it inside a transaction that has locked the instance (``state.lock``). ``kind`` is Nova's migration type and
    ``action`` the name of the decision's action, by default the kind. The server then holds its allocation on its host
    and one for the new flavor on the target.
    """
    instance, flavor = request.instance, dict(request.flavor or request.instance.flavor)
    room, ranked = room_of(flavor), [one.host for one in attempt.decision.ranked]
    taken, tried = claim_first(room, [host.id for host in ranked if host.name not in request.without], instance)
    chosen = next((host for host in ranked if host.id == taken), None) if tried else None
    record_decision(instance, action or kind, attempt, chosen, flavor=flavor)
    if taken is None:
        return None
    target = Host.objects.get(id=taken)
    migration = open_migration(context, instance, kind, flavor, target=target, status=status)
    record_second(instance, migration, taken, room)
    return migration


def leave_second(instance: Instance) -> None:
    """Command the second host to remove everything it has of the server. Idempotent.

    Its allocation is released when the host confirms; a host that is down gets the command when it is up again. If the
    server is on this host by now, because it was evacuated to it, only the allocation is released: the command would
    remove the guest with its disks.
    """
    row = second_of(instance.id)
    if row is None:
        return
    if row.host_id == instance.host_id:
        release_second(instance.id)
    else:
        send_destroy(instance.id, row.host_id, max(instance.attempt, row.attempt + 1))


def is_held_by_second(instance: Instance) -> bool:
    """Whether another host than the server's own has not confirmed that it has removed the remains of a move."""
    row = second_of(instance.id)
    return row is not None and row.host_id != instance.host_id


def set_bytes(migration: Migration, **amounts: int) -> None:
    """Record transferred bytes that a host reports: ``memory_…`` and ``disk_…`` with ``total``, ``processed`` and
    ``remaining``. Negative and implausible amounts are ignored.
    """
    kept: dict[str, Any] = {f"{name}_bytes": value for name, value in amounts.items() if 0 <= value < _MOST_BYTES}
    Migration.objects.filter(pk=migration.pk).update(**kept, updated_at=timezone.now())
    announce(migration.instance_id)


_MOST_BYTES = 1 << 60
