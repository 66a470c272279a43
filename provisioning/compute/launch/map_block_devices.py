"""Map block devices: the volumes of a guest whose host is known are made, reserved and connected to that host."""

from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.ids import NOBODY
from provisioning.compute import block_devices, instance_actions, state
from provisioning.compute.launch.attempts import MAPPING
from provisioning.compute.launch.block_devices import invalid
from provisioning.compute.launch.build_kinds import LAUNCH, build_kind_of
from provisioning.compute.models import BlockDevice, Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.states import TaskState
from provisioning.ec2 import creation_tags, given
from provisioning.hosts.models import Host
from provisioning.scheduler import HostState
from provisioning.volumes import services as volumes
from provisioning.volumes.models import Attachment, Message, Volume
from provisioning.volumes.requests import VolumeRequest
from provisioning.volumes.services import attachments
from provisioning.volumes.state import keep_still
from provisioning.volumes.states import VolumeStatus

LATE = timedelta(seconds=60)
"""After its deadline a volume's own reaper has this long to extend the deadline or to give the volume up."""
REFUSED = "Invalid volume: {message}"


def keep_volumes_still(devices: Iterable[BlockDevice]) -> None:
    """Lock the volumes of a launch that are there, before its quota (``provisioning.volumes.state``)."""
    ids = [device.volume_id for device in devices if device.volume_id is not None]
    if ids:
        keep_still(Volume.objects.filter(id__in=ids))


def reserve_volumes(instance: Instance, devices: list[BlockDevice]) -> None:
    """Reserve, with the launch's request, the volumes that are there already: nobody else attaches them from then on.

    Raises InvalidInputError for one that cannot be attached.
    """
    owner = _owner(instance)
    for device in devices:
        if device.volume_id is None:
            continue
        try:
            row = attachments.reserve(owner, device.volume_id, instance.id, mountpoint=device.device_name)
        except (ConflictError, InvalidInputError) as error:
            raise InvalidInputError(REFUSED.format(message=error.message), field="block_device_mapping_v2") from error
        device.attachment_id = row.id


def begins_mapping(instance: Instance, action: InstanceAction, steps: list[InstanceActionEvent]) -> bool:
    """Move a launch into ``block_device_mapping`` with what it has allocated (``steps``), inside the caller's
    transaction; False: it is there, or comes off its shelf, which has no such task.
    """
    if build_kind_of(instance) is not LAUNCH or instance.task_state == TaskState.BLOCK_DEVICE_MAPPING:
        return False
    moved = state.advance(instance, "map_block_devices", attempt=instance.attempt)
    if moved is None:
        return False
    begun = instance_actions.step(
        action, MAPPING, instance_actions.Span(timezone.now(), None), attempt=instance.attempt, host=instance.host_name
    )
    instance_actions.write([*steps, begun])
    state.announce_all(moved, [{"step": instance_actions.shown(begun)}])
    return True


def map_block_devices(
    instance: Instance, devices: list[BlockDevice], host: HostState, action: InstanceAction
) -> tuple[bool, list[InstanceActionEvent]]:
    """Bring the volumes of a build as far as they come now, inside the caller's transaction with the server locked.

    1. volumes that are asked for are made; 2. those that are there are reserved; 3. those that are the server's are
    connected to its host.  Each of it goes on elsewhere, and its end casts the job of the build again.

    Returns whether its host may open all of them now, and the step to be written.  Raises what the services of volumes
    raise, and InvalidInputError for a volume that could not be made.
    """
    if not devices:
        return True, []
    for device in devices:
        _make(instance, device, host)
    waiting = [device for device in devices if not _connect(instance, device, host)]
    span = instance_actions.Span(
        instance_actions.started(action, MAPPING, instance.attempt), None if waiting else timezone.now()
    )
    detail = {"volumes": str(len(devices)), "made": str(sum(device.made for device in devices))}
    if waiting:
        detail["waiting"] = str(len(waiting))
    step = instance_actions.step(action, MAPPING, span, attempt=instance.attempt, host=host.name, detail=detail)
    return not waiting, [step]


def volumes_are_made(instance: Instance) -> bool:
    """Whether a volume that the build waits for is still being made: that has a deadline of its own, and its reaper
    looks after it a moment after that.
    """
    ids = [device.volume_id for device in block_devices.volumes_of(instance.id) if device.volume_id]
    being_made = Volume.objects.filter(id__in=ids, status__in=block_devices.BEING_MADE)
    return being_made.filter(deadline__gt=timezone.now() - LATE).exists()


def _make(instance: Instance, device: BlockDevice, host: HostState) -> None:
    """Have the volume made that a disk is to be, unless it is there."""
    if device.volume_id is not None:
        return
    wanted = VolumeRequest(
        size_gb=device.size or 1,
        volume_type=device.volume_type,
        availability_zone="" if settings.CROSS_AZ_ATTACH else host.availability_zone,
        image_id=str(device.source_id) if device.source_type == "image" else "",
        snapshot_id=str(device.source_id) if device.source_type == "snapshot" else "",
    )
    volume = volumes.create_volume(_owner(instance), wanted)
    if volume.status == VolumeStatus.ERROR:
        said = Message.objects.filter(resource_id=volume.id).order_by("-created_at").first()
        raise invalid(f"a volume could not be made. {said.text if said else ''}")
    creation_tags.give(instance.id, "volume", [volume.id])
    given.pass_on(device.id, volume.id, given.VOLUME_TYPE)
    device.volume_id = volume.id
    BlockDevice.objects.filter(id=device.id).update(volume_id=device.volume_id)


def _connect(instance: Instance, device: BlockDevice, host: HostState) -> bool:
    """Reserve and connect the volume as far as it is there, also one that was taken from the server meanwhile; says
    whether the host may open it now.
    """
    rows = Attachment.objects.select_related("volume")
    attachment = rows.filter(id=device.attachment_id).first() if device.attachment_id is not None else None
    if attachment is None:
        volume = Volume.objects.filter(id=device.volume_id or NOBODY).first()
        if volume is None or volume.status in {VolumeStatus.ERROR, VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING}:
            raise invalid(f"volume {device.volume_id} could not be made.")
        if volume.status in block_devices.BEING_MADE:
            return False
        attachment = attachments.reserve(_owner(instance), volume.id, instance.id, mountpoint=device.device_name)
        device.attachment_id = attachment.id
        BlockDevice.objects.filter(id=device.id).update(attachment_id=attachment.id)
    if block_devices.is_connected(attachment, instance):
        return True
    if attachment.host_id != host.id:
        attachments.connect(attachment, Host.objects.get(id=host.id))
    return False


def _owner(instance: Instance) -> RequestContext:
    return block_devices.in_project(instance.project_id, instance.user_id, instance.request_id)
