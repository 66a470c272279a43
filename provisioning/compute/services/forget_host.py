"""Remove a host permanently, and release everything that waits for its reports."""

import uuid

from django.db import transaction
from django.db.models import Q

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link.allocations import release_second
from provisioning.compute.host_link.release import release_place
from provisioning.compute.models import Allocation, Instance, Migration, MoveAllocation
from provisioning.compute.records.migration_records import OPEN
from provisioning.compute.state_machine import state
from provisioning.hosts import notifications
from provisioning.hosts.commands import forget
from provisioning.hosts.models import Host, JoinToken
from provisioning.identity import policy

SETTLED = ("confirmed", "reverted", "error", "failed", "completed", "cancelled", "done")
"""Final statuses of migrations."""
MOVING = (
    "Unable to delete compute service that has in-progress migrations. Complete the migrations or delete the instances"
    " first."
)
IN_USE = "Unable to delete compute service that is hosting instances. Migrate or delete the instances first."


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
