"""Rebuild of a volume-backed server: checks, the write of the image to its boot volume, and the steps."""

import uuid
from typing import Any

from django.utils import timezone

from compute_agent.contract.steps import STOP_GUEST
from provisioning.common.context import RequestContext, cloud_in_project
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import NOBODY
from provisioning.compute.disks.block_devices import volumes_of
from provisioning.compute.flavors.guest_hardware import check_demands
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch.flavor_and_image import check_image, check_memory, needs_config_drive
from provisioning.compute.models import BlockDevice, Flavor, Instance, InstanceAction
from provisioning.compute.records import instance_actions
from provisioning.compute.selectors.host_offers import boot_properties, check_host_offers
from provisioning.compute.state_machine import state
from provisioning.volumes import services as volumes
from provisioning.volumes.models import Volume
from provisioning.volumes.states import VolumeStatus

STEP = "rebuild_block_device_mapping"
FAILED = "volume_failed"
LOST = "The write of the boot volume ended without a report."
NO_VOLUME = "The server's boot volume was detached."
NOT_WRITTEN = "Volume {volume} could not be written: {reason}"


def columns(context: RequestContext, instance: Instance, image_id: str, *, writes: bool) -> dict[str, Any]:
    """Check the image for a volume-backed server and return the columns to change.

    ``writes`` False: the volume keeps its data; raises InvalidInputError for an image other than the volume's.
    """
    root = _root_of(instance)
    if writes:
        return _written(context, instance, root, image_id)
    check_there(instance)
    volume = Volume.objects.filter(id=root.volume_id or NOBODY).first() if root else None
    known = {str(volume.image_metadata.get("image_id")), str(volume.source_image_id)} if volume else set()
    if image_id not in known:
        msg = "Unable to rebuild with a different image for a volume-backed server."
        raise InvalidInputError(msg, field="imageRef")
    return {}


def _written(context: RequestContext, instance: Instance, root: BlockDevice | None, image_id: str) -> dict[str, Any]:
    image = check_image(context, image_id)
    flavor = Flavor(name=instance.flavor["name"], memory_mb=instance.flavor["memory_mb"])
    try:
        check_memory(flavor, image)
        request = volumes.ReimageRequest(image_id, server_id=instance.id)
        volumes.Reimage.check_at_server(_owner(instance), _volume_id(root), request)
    except (InvalidInputError, NotFoundError) as error:
        raise InvalidInputError(error.message, field="imageRef") from error
    properties = boot_properties(image)
    check_demands(properties, instance.flavor)
    check_host_offers(instance, properties)
    return {
        "image_properties": properties,
        "config_drive": instance.config_drive or needs_config_drive(properties),
    }


def write(instance: Instance, image_id: str) -> None:
    """Start to write the image to the volume, inside the caller's transaction with the server locked.

    The end of the write casts the job ``compute.volume_reimaged``. Raises the errors of ``Reimage``.
    """
    request = volumes.ReimageRequest(image_id, server_id=instance.id)
    volumes.Reimage.begin(_owner(instance), _volume_id(_root_of(instance)), request)


def check_there(instance: Instance) -> None:
    """Raise InvalidInputError when an operator has detached the boot volume."""
    _volume_id(_root_of(instance))


def goes_on(instance: Instance) -> bool:
    """Whether the volume is being written."""
    root = _root_of(instance)
    return (
        root is not None
        and Volume.objects.filter(id=root.volume_id or NOBODY, status=VolumeStatus.DOWNLOADING).exists()
    )


def show_begun(instance: Instance, row: InstanceAction, stopped: Outcome) -> None:
    """Write the steps of a rebuild whose guest is stopped and whose volume is being written."""
    host = instance.host_name
    rows = instance_actions.record(
        row,
        instance.attempt,
        instance_actions.Step(STOP_GUEST, max(stopped.begun_at, row.started_at), stopped.ended_at, host),
        instance_actions.Step(STEP, timezone.now(), None, host),
    )
    state.announce_steps(instance, rows)


def show_ended(instance: Instance, row: InstanceAction, failure: str) -> None:
    """End the step in which the volume was written."""
    begun = instance_actions.started(row, STEP, instance.attempt)
    step = instance_actions.Step(STEP, begun, host=instance.host_name, failure=failure or None)
    state.announce_steps(instance, instance_actions.record(row, instance.attempt, step))


def _root_of(instance: Instance) -> BlockDevice | None:
    return next((device for device in volumes_of(instance.id) if device.is_root), None)


def _volume_id(root: BlockDevice | None) -> uuid.UUID:
    if root is None or root.volume_id is None or root.attachment_id is None:
        raise InvalidInputError(NO_VOLUME, field="imageRef")
    return root.volume_id


def _owner(instance: Instance) -> RequestContext:
    return cloud_in_project(instance.project_id, instance.user_id)
