"""Progress of new volume data, shown in a step of the server's launch or rebuild."""

from django.db.models import Sum

from provisioning.compute.actions.volume_rebuilds import STEP
from provisioning.compute.disks.block_devices import BEING_MADE
from provisioning.compute.launch.attempts import MAPPING
from provisioning.compute.models import BlockDevice, Instance, InstanceActionEvent
from provisioning.compute.records import instance_actions
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState
from provisioning.volumes.models import Volume

STEPS = {
    TaskState.BLOCK_DEVICE_MAPPING: ("create", MAPPING),
    TaskState.REBUILD_BLOCK_DEVICE_MAPPING: ("rebuild", STEP),
}
"""task_state → the action and step that wait for volumes."""


def show(volume: Volume) -> None:
    """Write the copied bytes of the server's new volumes to the step that waits for this volume. Locks no server."""
    waiting = BlockDevice.objects.filter(volume_id=volume.id, instance__task_state__in=STEPS)
    for device in waiting.select_related("instance"):
        _show(device.instance)


def _show(instance: Instance) -> None:
    action, name = STEPS[TaskState(instance.task_state or "")]
    row = instance_actions.current(instance.id, action)
    running = InstanceActionEvent.objects.filter(action=row, name=name, attempt=instance.attempt, finished_at=None)
    step = running.select_related("action").first() if row is not None else None
    if step is None:
        return
    ids = BlockDevice.objects.filter(instance=instance, volume_id__isnull=False).values("volume_id")
    sums = Volume.objects.filter(id__in=ids, status__in=BEING_MADE, progress_total__gt=0).aggregate(
        done=Sum("progress_bytes"), total=Sum("progress_total")
    )
    step.detail = {**step.detail, **{key: str(value or 0) for key, value in sums.items()}}
    if running.update(detail=step.detail):
        state.announce_steps(instance, [step])
