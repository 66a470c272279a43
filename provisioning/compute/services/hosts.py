"""Changes of hosts by operators."""

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link.allocations import release_second
from provisioning.compute.host_link.release import release_place, release_volumes_of_dead, return_from_dead
from provisioning.compute.models import Aggregate, Allocation, Instance, Migration, MoveAllocation
from provisioning.compute.records.migration_records import OPEN
from provisioning.compute.records.names import check_text
from provisioning.compute.state_machine import state
from provisioning.hosts import notifications
from provisioning.hosts.commands import forget
from provisioning.hosts.models import Host, JoinToken
from provisioning.identity import policy
from provisioning.jobs.queue.cast import cast_here

RATIOS = frozenset({"cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"})
RESERVED = frozenset({"reserved_memory_mb", "reserved_disk_gb"})
CUSTOM_TRAIT = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
MOST_CUSTOM_TRAITS = 100
TOPIC, FORCED_DOWN = "scheduler", "compute.forced_down"
"""The job that ends tasks of servers which wait for a host that is forced down."""

SETTLED = ("confirmed", "reverted", "error", "failed", "completed", "cancelled", "done")
"""Final statuses of migrations."""
MOVING = (
    "Unable to delete compute service that has in-progress migrations. Complete the migrations or delete the instances"
    " first."
)
IN_USE = "Unable to delete compute service that is hosting instances. Migrate or delete the instances first."


def enable_host(context: RequestContext, host_id: uuid.UUID) -> Host:
    """Enable the host for the scheduler. Raises ForbiddenError, NotFoundError."""
    return change_host(context, host_id, enabled=True)


def disable_host(context: RequestContext, host_id: uuid.UUID, reason: str = "") -> Host:
    """Disable the host for new servers; existing ones keep running. Also raises InvalidInputError."""
    return change_host(context, host_id, enabled=False, reason=reason)


@when_broken_off
def change_host(
    context: RequestContext,
    host_id: uuid.UUID,
    *,
    enabled: bool | None = None,
    reason: str = "",
    forced_down: bool | None = None,
) -> Host:
    """Enable or disable a host, set or clear ``forced_down``, or both; None keeps a value. A disabled host is in
    maintenance: the reason, the caller's name and the time are stored for operators.

    Force down only a host that is powered off or isolated, because deletes and evacuations then do not wait for its
    confirmation, and the tasks of its servers end (``upkeep.reaper.forced_down``). Raises ForbiddenError,
    NotFoundError, InvalidInputError.
    """
    policy.enforce(context, "os_compute_api:os-services:update")
    columns: dict[str, Any] = {}
    if enabled is not None:
        text = "" if enabled else check_text(reason, "disabled_reason")
        columns |= {"enabled": enabled, "disabled_reason": text, "disabled_by": "" if enabled else context.user_name}
    if forced_down is not None:
        columns["forced_down"] = forced_down
    since = {"disabled_at": None if enabled else timezone.now()}
    with transaction.atomic():
        if enabled is not None:  # another reason keeps the time
            Host.objects.filter(id=host_id, enabled=not enabled).update(**since)
        if columns:
            Host.objects.filter(id=host_id).update(**columns)
        host = Host.objects.filter(id=host_id).first()
        if host is None:
            raise NotFoundError(f"Host {host_id} could not be found.")
        if forced_down:
            release_volumes_of_dead(host.id)
            return_from_dead(host.id)
            cast_here(TOPIC, FORCED_DOWN, host_id=str(host.id))
        if columns:
            notifications.notify(host, "update")
    return host


@when_broken_off
def update_host(context: RequestContext, host_id: uuid.UUID, values: Mapping[str, Any]) -> Host:
    """Change a host's zone, its allocation ratios, its reserved resources (MiB, GiB) and its custom traits.

    Raises ForbiddenError, NotFoundError, InvalidInputError with the field, and ConflictError when the host's servers or
    an aggregate prevent a change of the zone.
    """
    policy.enforce(context, "os_compute_api:os-services:update")
    columns = {name: _checked(name, value) for name, value in values.items()}
    with transaction.atomic():
        host = Host.objects.select_for_update(no_key=True).filter(id=host_id).first()
        if host is None:
            raise NotFoundError(f"Host {host_id} could not be found.")
        if columns.get("availability_zone", host.availability_zone) != host.availability_zone:
            _check_free_to_move(host)
        Host.objects.filter(id=host_id).update(**columns)
        changed = Host.objects.get(id=host_id)
        notifications.notify(changed, "update")
        return changed


def build_failed(host_id: uuid.UUID) -> None:
    """Count a failed build that is the host's fault, inside the caller's transaction."""
    Host.objects.filter(id=host_id, failed_builds__lt=MAX_INTEGER).update(failed_builds=F("failed_builds") + 1)


def build_succeeded(host: Host | None) -> None:
    """Reset the host's count of failed builds; no query when it is zero."""
    if host is not None and host.failed_builds:
        Host.objects.filter(id=host.id, failed_builds__gt=0).update(failed_builds=0)


def _check_free_to_move(host: Host) -> None:
    held = Aggregate.objects.filter(hosts=host).exclude(availability_zone="").first()
    if held is not None:
        raise ConflictError(
            f"The host's zone is determined by aggregate {held.name}; change it there.", field="availability_zone"
        )
    if has_servers([host.id]):
        raise ConflictError(
            "The host has servers, which would change their zone; move or delete them first.",
            field="availability_zone",
        )


def check_zone(value: str) -> str:
    """Return the name of a zone. Raises InvalidInputError for ':', which separates zone and host in a launch."""
    name = check_text(value, "availability_zone", shortest=1)
    if ":" in name:
        msg = f"Invalid input for availability_zone: {name!r} has a ':'."
        raise InvalidInputError(msg, field="availability_zone")
    return name


def has_servers(host_ids: list[uuid.UUID]) -> bool:
    """Whether one of the hosts has a server that is not deleted."""
    return Instance.objects.filter(host__in=host_ids, deleted_at=None).exists()


def _checked(name: str, value: Any) -> Any:
    """Return the validated value of a column that operators may change."""
    if name == "availability_zone":
        return check_zone(value)
    if name in RATIOS and not 0 < value <= 1000:
        raise InvalidInputError(f"{name} must be more than 0 and at most 1000.", field=name)
    if name in RESERVED and not 0 <= value <= MAX_INTEGER:
        raise InvalidInputError(f"{name} must be from 0 to {MAX_INTEGER}.", field=name)
    if name == "custom_traits":
        return _custom_traits(value)
    if name not in RATIOS | RESERVED:
        raise InvalidInputError(f"{name} of a host cannot be changed.", field=name)
    return value


def _custom_traits(names: Iterable[str]) -> list[str]:
    """Return custom traits, sorted. Raises InvalidInputError for a name that OpenStack does not allow."""
    result = sorted(set(names))
    wrong = [name for name in result if not CUSTOM_TRAIT.fullmatch(name)]
    if wrong or len(result) > MOST_CUSTOM_TRAITS:
        problem = f"{wrong[0]!r} is not such a name" if wrong else f"there are more than {MOST_CUSTOM_TRAITS}"
        raise InvalidInputError(
            f"A custom trait is CUSTOM_ and capital letters, digits and '_', 255 characters at most: {problem}.",
            field="custom_traits",
        )
    return result


@when_broken_off
def forget_host(context: RequestContext, host_id: uuid.UUID) -> None:
    """Remove a host without servers; to return as a new host its agent needs a new join token.

    In one transaction:

    1. the allocations, addresses and quota of deleted servers that waited for the host's confirmation are released;
    2. the host is locked, so that no server is placed on it;
    3. the host is removed from its aggregates and deleted, with its credential, join tokens, commands and calls.

    Stop its agent first. Raises ForbiddenError, NotFoundError, and ConflictError while it has servers or unfinished
    migrations.
    """
    policy.enforce(context, "os_compute_api:os-services:delete")
    with transaction.atomic():
        here = [model.objects.filter(host_id=host_id) for model in (Allocation, MoveAllocation)]
        ids = sorted({key for rows in here for key in rows.values_list("instance_id", flat=True)})
        state.lock(ids)
        for gone in Instance.objects.filter(id__in=ids, deleted_at__isnull=False).order_by("id"):
            block_devices.release_all(gone.id)
            release_place(gone.id)
        for row in MoveAllocation.objects.filter(host_id=host_id).exclude(migration__status__in=OPEN):
            release_second(row.instance_id)
        host = Host.objects.select_for_update().filter(id=host_id).first()
        if host is None:
            raise NotFoundError(f"Service {host_id} not found.")
        mine = Instance.objects.filter(host=host)
        if mine.filter(deleted_at=None).exists() or Allocation.objects.filter(host=host).exists():
            raise ConflictError(IN_USE)
        if MoveAllocation.objects.filter(host=host).exists():
            raise ConflictError(MOVING)
        migrations = Migration.objects.filter(Q(source_compute=host.name) | Q(dest_compute=host.name))
        if migrations.filter(instance__deleted_at=None).exclude(status__in=SETTLED).exists():
            raise ConflictError(MOVING)
        mine.update(host=None)
        JoinToken.objects.filter(host_name=host.name, used_at=None).delete()
        forget(host.id)
        notifications.notify(host, "delete")
        host.delete()
