"""Periodic job that confirms resizes."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.common.context import system_context
from provisioning.common.errors import NovellaError
from provisioning.compute.actions.resize import ConfirmResize, confirm_changed_types
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.jobs.registry import periodic

BATCH = 100


@periodic("compute.confirm_resizes", every=10.0)
def confirm_resizes() -> int:
    """Confirm the resizes that have waited for RESIZE_CONFIRM_WINDOW seconds (0: never); returns their number.

    Resizes requested through the EC2 API, which has no confirmation, are always confirmed.
    """
    confirm_changed_types()
    window = settings.RESIZE_CONFIRM_WINDOW
    if not window:
        return 0
    limit = timezone.now() - timedelta(seconds=window)
    waiting = Instance.objects.filter(vm_state=VmState.RESIZED, task_state=None, resized_at__lt=limit)
    confirmed = 0
    for instance_id in waiting.order_by("resized_at").values_list("id", flat=True)[:BATCH]:
        try:
            ConfirmResize.begin(system_context(), instance_id)
        except NovellaError:  # confirmed, reverted or deleted concurrently, or its host is down
            continue
        confirmed += 1
    return confirmed
