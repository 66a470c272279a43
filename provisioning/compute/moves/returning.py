"""Return of a server to its own host after the evacuation to another host has failed.

Its own host has kept the guest, but the other host may have acquired its volumes and its root disk in a pool. A start
of the server connects them to its own host again, and defines the guest with them (``cold.go_on``).
"""

import uuid
from collections.abc import Sequence

from django.db.models import Exists, F, OuterRef, Subquery
from django.utils import timezone

from provisioning.compute.host_link.release import GUEST, has_shared_disks, is_cut_off
from provisioning.compute.models import Allocation, Instance, Migration
from provisioning.compute.notifications import Note
from provisioning.compute.records import instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.records.migration_records import EVACUATION
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState
from provisioning.hosts.selectors import is_alive

FENCE_FIRST = (
    "Server {id} has volumes or a root disk in a pool, which host {host} may still have open. Make sure that the host"
    " is powered off or isolated, force it down, and try again."
)
NOT_CONFIRMED = "Host {host} has not confirmed the removal of the remains of an evacuation of server {id} yet."
FENCE_BEFORE_START = (
    "The server's evacuation to another host has failed, and that host may still have its disks open. Start the server"
    " again when that host has confirmed the removal, or when an operator has forced it down."
)
STOP_FIRST = "The server's evacuation has failed, and its guest may run without its disks. Stop it, then start it."
RECORD = "start"
"""The action record of a start that returns the server."""


def is_needed(instance: Instance) -> bool:
    """Whether disks have to be returned to a server, because its last move was an evacuation that has failed, and it
    still has the guest from before the evacuation. A guest that was started since then, or was renumbered by a restore,
    has its disks.
    """
    if instance.guest_attempt is None or instance.host_id is None:
        return False
    if not has_failed(instance) or not has_shared_disks(instance):
        return False
    guest = instance_actions.newest_detail(instance.id, "evacuate").get(GUEST)
    return guest in (None, str(instance.guest_attempt))  # None: the history was deleted


def has_failed(instance: Instance) -> bool:
    """Whether the newest move of a server was an evacuation that has failed."""
    rows = Migration.objects.filter(instance=instance).order_by("-id").values_list("migration_type", "status")
    return rows.first() == (EVACUATION, "error")


def failed_evacuations() -> Exists:
    """Return the condition on servers with ``has_failed``, for queries."""
    newest = Migration.objects.filter(instance=OuterRef(OuterRef("pk"))).order_by("-id").values("id")[:1]
    return Exists(Migration.objects.filter(id=Subquery(newest), migration_type=EVACUATION, status="error"))


def is_in_progress(instance: Instance) -> bool:
    """Whether a start of the server returns it to its own host first."""
    return instance.task_state == TaskState.POWERING_ON and is_needed(instance)


def is_allocated_elsewhere(instance: Instance) -> bool:
    """Whether the allocation of a server is on another host than its own."""
    return Allocation.objects.filter(instance=instance).exclude(host=instance.host).exists()


def held_elsewhere(servers: Sequence[Instance]) -> dict[uuid.UUID, str]:
    """Return server → why the host of an earlier evacuation, which has failed, may still write to the server's data."""
    now, by_id = timezone.now(), {server.id: server for server in servers}
    rows = Allocation.objects.select_related("host").filter(instance__in=list(by_id))
    result = {}
    for row in rows.exclude(host=F("instance__host")):
        if not is_cut_off(by_id[row.instance_id], row.host):
            reason = NOT_CONFIRMED if is_alive(row.host, now) else FENCE_FIRST
            result[row.instance_id] = reason.format(id=row.instance_id, host=row.host.name)
    return result


def not_returned(instance: Instance, message: str) -> Instance | None:
    """End a start whose volumes could not be connected, inside the caller's transaction; it can be repeated."""
    note = Note(fault=message, cause="volumes")
    back = state.advance(instance, "action_failed", attempt=instance.attempt, note=note)
    if back is None:
        return None
    record_fault(back, message, details=RECORD, host_name=back.host_name)
    instance_actions.finish(back.id, RECORD, message=message)
    return back
