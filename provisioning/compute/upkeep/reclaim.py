"""Periodic job that deletes soft-deleted servers after their time to be restored."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.common.context import system_context
from provisioning.common.errors import NovellaError
from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.jobs.registry import periodic

BATCH = 100


@periodic("compute.reclaim", every=60.0)
def reclaim() -> int:
    """Delete the servers that were soft-deleted RECLAIM_INSTANCE_INTERVAL seconds ago; returns their number."""
    limit = timezone.now() - timedelta(seconds=settings.RECLAIM_INSTANCE_INTERVAL)
    waiting = Instance.objects.filter(vm_state=VmState.SOFT_DELETED, task_state=None, soft_deleted_at__lt=limit)
    reclaimed = 0
    for instance_id in waiting.order_by("soft_deleted_at").values_list("id", flat=True)[:BATCH]:
        try:
            delete(system_context(), instance_id, force=True)
        except NovellaError:  # restored or deleted concurrently
            continue
        reclaimed += 1
    return reclaimed
