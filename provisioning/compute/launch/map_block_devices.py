"""Map block devices: create, reserve and connect the volumes of a guest whose host is known."""

from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.common.context import RequestContext, cloud_in_project
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.values.ids import NOBODY
from provisioning.compute.disks import block_devices
from provisioning.compute.launch.attempts import MAPPING
from provisioning.compute.launch.block_devices import invalid
from provisioning.compute.launch.builds import Build
from provisioning.compute.models import BlockDevice, Instance, InstanceAction
from provisioning.compute.records import instance_actions
from provisioning.compute.records.instance_actions import Step
from provisioning.compute.state_machine import state
from provisioning.ec2 import creation_tags, given
from provisioning.hosts.models import Host
from provisioning.scheduler import HostState
from provisioning.volumes import services as volumes
from provisioning.volumes.models import Attachment, Message, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.state_machine.state import keep_still
from provisioning.volumes.states import VolumeStatus

LATE = timedelta(seconds=60)
"""Time after a volume's deadline in which its own reaper extends the deadline or fails the volume."""
REFUSED = "Invalid volume: {message}"


def lock_volumes(devices: Iterable[BlockDevice]) -> None:
    """Lock the existing volumes of a launch; called before its quota is reserved. See
    ``provisioning.volumes.state_machine.state``.
    """
    ids = [device.volume_id for device in devices if device.volume_id is not None]
    if ids:
        keep_still(Volume.objects.filter(id__in=ids))


def reserve_volumes(instance: Instance, devices: list[BlockDevice]) -> None:
    """Reserve the existing volumes of a launch, so that no other server can attach them.

    Raises InvalidInputError for a volume that cannot be attached.
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


def begin_mapping(build: Build, host: HostState | Host) -> None:
    """Change the state of a launch to ``block_device_mapping``, inside the caller's transaction. Raises
    ChangedError.
    """
    state.apply(build.instance, "map_block_devices")
    state.record_steps(build.instance, build.action, Step(MAPPING, timezone.now(), None, host.name))


def map_block_devices(
    instance: Instance, devices: list[BlockDevice], host: HostState | Host, action: InstanceAction
) -> bool:
    """Advance the volumes of a build, inside the caller's transaction with the server locked.

    1. Requested new volumes are created.
    2. Available volumes are reserved.
    3. Reserved volumes are connected to the host.

    Each operation continues in the background, and its end casts the build's job again. Returns whether the host can
    open all volumes now. Raises the errors of the volume services, and InvalidInputError for a volume whose creation
    failed.
    """
    if not devices:
        return True
    for device in devices:
        _make(instance, device, host)
    waiting = [device for device in devices if not _connect(instance, device, host)]
    started = instance_actions.started(action, MAPPING, instance.attempt)
    detail = {"volumes": str(len(devices)), "made": str(sum(device.made for device in devices))}
    if waiting:
        running = Step(MAPPING, started, None, host.name, {**detail, "waiting": str(len(waiting))})
        state.record_steps(instance, action, running)
    else:
        instance_actions.record(action, instance.attempt, Step(MAPPING, started, host=host.name, detail=detail))
    return not waiting


def volumes_are_made(instance: Instance) -> bool:
    """Whether a volume that the build waits for is still being created; the volume has its own deadline and reaper."""
    ids = [device.volume_id for device in block_devices.volumes_of(instance.id) if device.volume_id]
    being_made = Volume.objects.filter(id__in=ids, status__in=block_devices.BEING_MADE)
    return being_made.filter(deadline__gt=timezone.now() - LATE).exists()


def _make(instance: Instance, device: BlockDevice, host: HostState | Host) -> None:
    """Create the volume of a disk, unless it exists.

    It has the id of its disk, so that the guest's first boot can identify it by serial number (``mounts``).
    """
    if device.volume_id is not None:
        return
    request = VolumeRequest(
        size_gb=device.size or 1,
        name=device.volume_name,
        volume_type=device.volume_type,
        availability_zone="" if settings.CROSS_AZ_ATTACH else host.availability_zone,
        image_id=str(device.source_id) if device.source_type == "image" else "",
        snapshot_id=str(device.source_id) if device.source_type == "snapshot" else "",
    )
    volume = volumes.Create.begin(_owner(instance), request, device.id)
    if volume.status == VolumeStatus.ERROR:
        failure = Message.objects.filter(resource_id=volume.id).order_by("-created_at").first()
        raise invalid(f"a volume could not be created. {failure.text if failure else ''}")
    creation_tags.apply(instance.id, "volume", [volume.id])
    given.pass_on(device.id, volume.id, given.VOLUME_TYPE)
    device.volume_id = volume.id
    BlockDevice.objects.filter(id=device.id).update(volume_id=device.volume_id)


def _connect(instance: Instance, device: BlockDevice, host: HostState | Host) -> bool:
    """Connect the volume to the host; reserve it if the launch has created it, or if it was detached concurrently.

    Returns whether the host can open it now.
    """
    rows = Attachment.objects.select_related("volume")
    attachment = rows.filter(id=device.attachment_id).first() if device.attachment_id is not None else None
    if attachment is None:
        volume = Volume.objects.filter(id=device.volume_id or NOBODY).first()
        if volume is None or volume.status in {VolumeStatus.ERROR, VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING}:
            raise invalid(f"volume {device.volume_id} could not be created.")
        if volume.status in block_devices.BEING_MADE:
            return False
        place, name = Host.objects.get(id=host.id), device.device_name
        attachment = attachments.reserve(_owner(instance), volume.id, instance.id, mountpoint=name, host=place)
        device.attachment_id = attachment.id
        BlockDevice.objects.filter(id=device.id).update(attachment_id=attachment.id)
        return False
    if block_devices.is_connected(attachment, instance):
        return True
    if attachment.host_id != host.id:
        attachments.connect(attachment, Host.objects.get(id=host.id))
    return False


def _owner(instance: Instance) -> RequestContext:
    return cloud_in_project(instance.project_id, instance.user_id, instance.request_id)
