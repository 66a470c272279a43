"""Images of volume-backed servers: snapshots of the volumes, and an image that refers to them."""

import json
from typing import Any

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext, cloud_in_project
from provisioning.common.database.retry import when_broken_off
from provisioning.compute.disks import block_devices
from provisioning.compute.disks.snapshot_images import ServerImage, make_record
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.records import instance_actions
from provisioning.compute.state_machine import state
from provisioning.compute.states import AT_REST
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.volumes.services import CreateSnapshot, SnapshotRequest

PROPERTY = "block_device_mapping"
RECORD = "createImage"
SECTOR = 512
_TEXTS = ("device_name", "disk_bus", "device_type", "guest_format", "tag")


def make(context: RequestContext, instance: Instance, made: ServerImage) -> None:
    """Create an image from snapshots of all volumes of a running or stopped server. Do not call it in a transaction.

    Raises InstanceBusyError, OverQuotaError, InvalidVolumeError.
    """
    image = _record(context, instance, made)
    images.upload(cloud_in_project(image.project_id), image.id, [bytes(SECTOR)])  # an active image needs some data


@when_broken_off
@transaction.atomic
def _record(context: RequestContext, known: Instance, made: ServerImage) -> Image:
    started = timezone.now()
    state.lock([known.id])
    instance = Instance.objects.select_related("host").get(id=known.id)
    if instance.task_state is not None or instance.vm_state not in AT_REST:
        raise InstanceBusyError(RECORD, instance.id, instance.vm_state, instance.task_state)
    owner = cloud_in_project(instance.project_id, context.user_id, context.request_id)
    mapping = []
    for device in block_devices.volumes_of(instance.id):
        if device.volume_id is not None:
            request = SnapshotRequest(f"snapshot for {made.name}"[:255], force=True)
            snapshot = CreateSnapshot.begin(owner, device.volume_id, request)
            mapping.append(_entry(device, str(snapshot.id)))
    more = {PROPERTY: json.dumps(mapping), "bdm_v2": "True", "root_device_name": "/dev/vda"}
    image = make_record(context, instance, ServerImage(made.id, made.name, made.kind, {**made.more, **more}, "raw"))
    row = instance_actions.begin(context, instance.id, RECORD, started)
    detail = {"image": str(made.id), "volumes": str(len(mapping))}
    instance_actions.record(row, instance.attempt, instance_actions.Step(f"api_{RECORD}", started, detail=detail))
    instance_actions.close(row, None)
    state.announce_all(instance, [{}])
    return image


def _entry(device: BlockDevice, snapshot_id: str) -> dict[str, Any]:
    return {
        "source_type": "snapshot",
        "destination_type": "volume",
        "snapshot_id": snapshot_id,
        "boot_index": device.boot_index,
        "volume_size": device.size,
        "delete_on_termination": device.delete_on_termination,
        **{name: getattr(device, name) for name in _TEXTS},
    }
