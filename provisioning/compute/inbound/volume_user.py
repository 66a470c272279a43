"""Reactions of servers to changes of their volumes.

Volumes call this module with the volume locked, but servers are locked before their volumes everywhere. So each call
casts a job, which locks in the right order. Jobs for which a user may be waiting run directly after the transaction.
"""

import uuid
from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q, Sum

from provisioning.common.database.retry import when_broken_off
from provisioning.common.values.ids import NOBODY
from provisioning.compute.actions import new_volumes
from provisioning.compute.actions.attach_volume import AttachVolume
from provisioning.compute.actions.detach_volume import DetachVolume
from provisioning.compute.actions.live_migrate import LiveMigrate
from provisioning.compute.actions.rebuild import RebuildAction
from provisioning.compute.actions.refresh_volume import send_refresh
from provisioning.compute.actions.swap_volume import SwapVolume
from provisioning.compute.actions.volume_rebuilds import NOT_WRITTEN, STEP
from provisioning.compute.actions.volumes import send_removal
from provisioning.compute.disks import block_devices
from provisioning.compute.disks.block_devices import BEING_MADE
from provisioning.compute.host_link import volume_commands
from provisioning.compute.launch.attempts import MAPPING
from provisioning.compute.launch.builds import build_kind_of, is_waiting
from provisioning.compute.launch.retry import cast_schedule, fail
from provisioning.compute.models import BlockDevice, Instance, InstanceActionEvent
from provisioning.compute.moves import cold
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState
from provisioning.hosts.models import HostCommand
from provisioning.jobs.queue.cast import cast, cast_here
from provisioning.jobs.registry import job
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.services import swapped
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.states import AttachStatus, VolumeStatus

TOPIC = "scheduler"
CONNECTED, REFUSED = "compute.volume_connected", "compute.volume_refused"
SECOND = "compute.volume_second_connected"
READY, FAILED, CHANGED = "compute.volume_ready", "compute.volume_failed", "compute.volume_changed"
REIMAGED = "compute.volume_reimaged"
MOVED, RELEASED = "compute.volume_moved", "compute.volume_released"
ATTACH_NEW = "compute.attach_new_volume"
AWAY = "The server is not running on its host."
TAKEN = "An operator has detached the volume from the server."
NOT_CONNECTED = "Volume {volume} could not be connected: {reason}"
NOT_MADE = "Block Device Mapping is Invalid: volume {volume} could not be created. {reason}"

STEPS = {
    TaskState.BLOCK_DEVICE_MAPPING: ("create", MAPPING),
    TaskState.REBUILD_BLOCK_DEVICE_MAPPING: ("rebuild", STEP),
}
"""task_state → the action and step that wait for volumes."""


class Servers(uses.VolumeUser):
    """Servers as users of volumes."""

    def connected(self, attachment: Attachment, *, again: bool = False) -> None:
        if attachment.instance_id is not None:
            cast_here(TOPIC, CONNECTED, attachment_id=str(attachment.id), again=again)

    def second_connected(self, attachment: Attachment, message: str) -> None:
        if attachment.instance_id is not None:
            cast_here(TOPIC, SECOND, attachment_id=str(attachment.id), message=message)

    def refused(self, attachment: Attachment, message: str) -> None:
        if attachment.instance_id is not None:
            cast(TOPIC, REFUSED, attachment_id=str(attachment.id), message=message)

    def ready(self, volume: Volume) -> None:
        if new_volumes.ATTACH_TO in volume.admin_metadata:
            cast_here(TOPIC, ATTACH_NEW, volume_id=str(volume.id))
        elif BlockDevice.objects.filter(volume_id=volume.id).exists():
            cast_here(TOPIC, READY, volume_id=str(volume.id))

    def failed(self, volume: Volume, message: str) -> None:
        if BlockDevice.objects.filter(volume_id=volume.id).exists():
            cast(TOPIC, FAILED, volume_id=str(volume.id), message=message)

    def reimaged(self, volume: Volume, message: str = "") -> None:
        waiting = TaskState.REBUILD_BLOCK_DEVICE_MAPPING
        if BlockDevice.objects.filter(volume_id=volume.id, instance__task_state=waiting).exists():
            cast_here(TOPIC, REIMAGED, volume_id=str(volume.id), message=message)

    def progressed(self, volume: Volume) -> None:
        show(volume)

    def changed(self, volume: Volume) -> None:
        cast_here(TOPIC, CHANGED, volume_id=str(volume.id))

    def released(self, attachment: Attachment) -> None:
        if attachment.instance_id is not None:
            cast(TOPIC, RELEASED, attachment_id=str(attachment.id))

    def has(self, attachment: Attachment) -> bool:
        return BlockDevice.objects.filter(_of(attachment.id)).exists()

    def is_building(self, attachment: Attachment) -> bool:
        device = BlockDevice.objects.select_related("instance").filter(_of(attachment.id)).first()
        if device is None:
            return False
        return build_kind_of(device.instance) is not None or cold.waits_for_volumes(device.instance)

    def swap(self, old: Attachment, new: Attachment) -> None:
        cast(TOPIC, MOVED, attachment_id=str(old.id), new_attachment_id=str(new.id))

    def working(self, attachment: Attachment) -> Sequence[HostCommand]:
        return volume_commands.unfinished(attachment)

    def is_swapping(self, new: Attachment) -> bool:
        return any(command.kind == volume_commands.SWAP for command in volume_commands.unfinished(new))


@job(CONNECTED, topic=TOPIC)
@when_broken_off
@transaction.atomic
def connected(attachment_id: str, *, again: bool = False) -> None:
    """Continue a build, or plug in a disk, that waits for the connection. If the guest already has the disk, update it.

    ``again``: only if the server has no task and no unfinished command.
    """
    instance, device = _locked(attachment_id)
    if instance is None or device is None:
        return
    attachment = Attachment.objects.select_related("volume").filter(id=attachment_id).first()
    if again and (instance.task_state or device.swap_attachment_id or host_commands.is_busy_with(instance.id)):
        return
    if is_waiting(instance):
        cast_schedule(instance)
    elif cold.waits_for_volumes(instance):
        cold.cast_move(instance)
    elif attachment is None or not block_devices.is_connected(attachment, instance):
        return
    elif attachment.id != device.attachment_id:
        SwapVolume().go_on(instance, device)
    elif device.plugged and not device.leaving:
        send_refresh(instance, device)
    else:
        AttachVolume().go_on(instance, device)


@job(REFUSED, topic=TOPIC)
@when_broken_off
@transaction.atomic
def refused(attachment_id: str, message: str) -> None:
    """Abort the build, attach or swap whose volume could not be connected; a report about an earlier connection is
    ignored.
    """
    instance, device = _locked(attachment_id)
    attachment = Attachment.objects.filter(id=attachment_id).first()
    if instance is None or device is None or attachment is None:
        return
    if attachment.connection or attachment.status != AttachStatus.ERROR_ATTACHING:
        return
    fault = NOT_CONNECTED.format(volume=attachment.volume_id, reason=message)
    if is_waiting(instance):
        fail(instance, fault, clean=True)
    elif cold.waits_for_volumes(instance):
        cold.volume_refused(instance, fault)
    elif attachment.id == device.swap_attachment_id:
        SwapVolume().give_up(instance, device, fault)
    elif not device.plugged:
        AttachVolume().give_up(instance, device, fault)


@job(SECOND, topic=TOPIC)
@when_broken_off
@transaction.atomic
def second_connected(attachment_id: str, message: str) -> None:
    """Continue, or abort, the live migration whose second host waits for its volumes."""
    instance, device = _locked(attachment_id)
    if instance is not None and device is not None:
        LiveMigrate().go_on(instance, NOT_CONNECTED.format(volume=device.volume_id, reason=message) if message else "")


@job(READY, topic=TOPIC)
@when_broken_off
@transaction.atomic
def ready(volume_id: str) -> None:
    """Continue the builds that wait for a new volume."""
    for instance in _waiting_for(volume_id):
        cast_schedule(instance)


@job(ATTACH_NEW, topic=TOPIC)
def attach_new(volume_id: str) -> None:
    """Attach a new volume to the server for which it was created."""
    new_volumes.attach_when_ready(volume_id)


@job(FAILED, topic=TOPIC)
@when_broken_off
@transaction.atomic
def failed(volume_id: str, message: str) -> None:
    """Fail the builds that wait for a volume that could not be created."""
    for instance in _waiting_for(volume_id):
        fail(instance, NOT_MADE.format(volume=volume_id, reason=message), clean=True)


@job(REIMAGED, topic=TOPIC)
@when_broken_off
def reimaged(volume_id: str, message: str) -> None:
    """Continue the rebuild that waits for its boot volume, or fail it with ``message``."""
    failure = NOT_WRITTEN.format(volume=volume_id, reason=message) if message else ""
    with transaction.atomic():
        for key in BlockDevice.objects.filter(volume_id=volume_id, boot_index=0).values_list("instance_id", flat=True):
            state.lock([key])
            RebuildAction().volume_written(Instance.objects.select_related("host").get(id=key), failure)


@job(CHANGED, topic=TOPIC)
def changed(volume_id: str) -> None:
    """Update the volume's disk on the host of each guest; if no guest has it, report the change as applied."""
    for attachment in Attachment.objects.filter(volume_id=volume_id, instance_id__isnull=False):
        _refresh(attachment)


@job(MOVED, topic=TOPIC)
@when_broken_off
@transaction.atomic
def moved(attachment_id: str, new_attachment_id: str) -> None:
    """Switch the guest of a volume to its data in another pool."""
    instance, device = _locked(attachment_id)
    if instance is None or device is None or not SwapVolume().move(instance, device, new_attachment_id):
        swapped(uuid.UUID(new_attachment_id), failed=AWAY)


@job(RELEASED, topic=TOPIC)
@when_broken_off
@transaction.atomic
def released(attachment_id: str) -> None:
    """Remove the disk of a volume that an operator has detached, and unplug it from the guest.

    A root disk stays in the records without its volume. Actions in progress on the disk end, and the replacement of a
    swap is released.
    """
    if Attachment.objects.filter(id=attachment_id).exists():
        return
    instance, device = _locked(attachment_id)
    if instance is None or device is None:
        return
    row = BlockDevice.objects.filter(id=device.id)
    if str(device.swap_attachment_id) == attachment_id:
        row.update(swap_attachment_id=None, swap_volume_id=None)
        _close_actions(instance, device)
        return
    if device.volume_id is not None and not is_waiting(instance):
        send_removal(instance, device.volume_id, attachment_id)
    if device.swap_volume_id is not None:
        SwapVolume().drop(device)
    elif device.swap_attachment_id is not None and not _is_switching(device):
        swapped(device.swap_attachment_id, failed=TAKEN)
    if device.is_root:
        row.update(attachment_id=None, plugged=False, swap_attachment_id=None)
    else:
        row.delete()
    _close_actions(instance, device)


def _is_switching(device: BlockDevice) -> bool:
    """Whether a host has an unfinished command to switch the guest to its volume's new data."""
    new = Attachment.objects.filter(id=device.swap_attachment_id or NOBODY).first()
    return new is not None and uses.user().is_swapping(new)


def _close_actions(instance: Instance, device: BlockDevice) -> None:
    """Close the actions about a volume that the server no longer has; a detach is successful."""
    for record, message in ((AttachVolume.record, TAKEN), (SwapVolume.record, TAKEN), (DetachVolume.record, None)):
        action = instance_actions.of_volume(instance.id, record, str(device.volume_id))
        if action is not None:
            instance_actions.close(action, message)
    state.announce_all(instance, [{}])


@when_broken_off
@transaction.atomic
def _refresh(known: Attachment) -> None:
    instance, device = _locked(str(known.id))
    if instance is None or device is None:
        attachments.refreshed(known)
        return
    attachment = Attachment.objects.select_related("volume").filter(id=device.attachment_id or NOBODY).first()
    if attachment is None:
        return
    BlockDevice.objects.filter(id=device.id).update(size=attachment.volume.size_gb)
    if device.plugged and not device.leaving and block_devices.is_connected(attachment, instance):
        send_refresh(instance, device, extended=attachment.volume.status == VolumeStatus.EXTENDING)
    else:
        attachments.refreshed(attachment)


def _of(attachment_id: str | uuid.UUID) -> Q:
    return Q(attachment_id=attachment_id) | Q(swap_attachment_id=attachment_id)


def _locked(attachment_id: str) -> tuple[Instance, BlockDevice] | tuple[None, None]:
    """Lock the server of an attachment until the caller's transaction ends, and return it with the attachment's disk;
    (None, None) when there is no such disk.
    """
    mine = _of(attachment_id)
    known = BlockDevice.objects.filter(mine).first()
    if known is None:
        return None, None
    state.lock([known.instance_id])
    device = BlockDevice.objects.filter(mine, id=known.id).first()
    if device is None:
        return None, None
    return Instance.objects.select_related("host").get(id=device.instance_id), device


def _waiting_for(volume_id: str) -> list[Instance]:
    """Lock the servers of a volume until the caller's transaction ends, and return those that are being built."""
    ids = list(BlockDevice.objects.filter(volume_id=volume_id).values_list("instance_id", flat=True))
    state.lock(ids)
    rows = Instance.objects.select_related("host").filter(id__in=ids).order_by("id")
    return [instance for instance in rows if is_waiting(instance)]


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
