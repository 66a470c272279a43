"""Periodic job that offloads shelved servers."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.common.context import system_context
from provisioning.common.errors import NovellaError
from provisioning.compute.actions.shelve import Offload
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.hosts.selectors import alive
from provisioning.jobs.registry import periodic

BATCH = 100


@periodic("compute.offload", every=10.0)
def offload_shelved() -> int:
    """Offload servers that have been shelved for SHELVED_OFFLOAD_TIME seconds and whose host is up; returns their
    number.

    -1 seconds: never.
    """
    if settings.SHELVED_OFFLOAD_TIME < 0:
        return 0
    now = timezone.now()
    limit = now - timedelta(seconds=settings.SHELVED_OFFLOAD_TIME)
    waiting = Instance.objects.filter(
        alive(now, "host__"), vm_state=VmState.SHELVED, task_state=None, shelved_at__lte=limit
    )
    taken = 0
    for instance_id in waiting.order_by("shelved_at").values_list("id", flat=True)[:BATCH]:
        try:
            Offload.begin(system_context(), instance_id)
        except NovellaError:  # unshelved or deleted concurrently
            continue
        taken += 1
    return taken
