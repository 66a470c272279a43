"""Create a volume for a server and attach it when it is available."""

import uuid

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.base import check_lock
from provisioning.compute.disks import block_devices, device_names
from provisioning.volumes.models import Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, messages
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import VolumeStatus

ATTACH_TO, DELETES = "attach_to", "delete_on_termination"
"""Keys in a new volume's ``admin_metadata``: its server, and whether the volume is deleted with it."""
OWNERS = frozenset({"member", "reader"})
"""Roles of the volume's creator, assumed when it is attached later."""


@when_broken_off
def create_and_attach(
    context: RequestContext,
    instance_id: uuid.UUID | str,
    request: VolumeRequest,
    *,
    delete_on_termination: bool = False,
) -> Volume:
    """Create a volume that is attached to the server as soon as it is available; a later failure is a message of the
    volume.

    Raises the errors of ``Create``, NotFoundError and InstanceLockedError for the server, and InvalidInputError
    for a running server whose disks are on a bus without hot-plug.
    """
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        check_lock(context, instance)
        hardware = device_names.hardware_of(instance.image_properties, instance.flavor)
        block_devices.check_bus(instance, hardware.disk_bus)
        volume = Create.begin(context, request)
        if volume.status == VolumeStatus.ERROR:
            return volume
        kept = {ATTACH_TO: str(instance.id), DELETES: str(delete_on_termination)}
        return state.update(volume, {"admin_metadata": {**volume.admin_metadata, **kept}})


def attach_when_ready(volume_id: str) -> None:
    """Attach a volume to the server for which it was created. It is tried only once."""
    volume = Volume.objects.filter(id=volume_id, status=VolumeStatus.AVAILABLE).first()
    server = volume.admin_metadata.get(ATTACH_TO) if volume is not None else None
    if volume is None or server is None:
        return
    context = RequestContext(user_id=volume.user_id, user_name="", project_id=volume.project_id, roles=OWNERS)
    requested = VolumeToAttach(
        str(volume.id), delete_on_termination=volume.admin_metadata.get(DELETES) == "True", shared=volume.multiattach
    )
    left = {name: value for name, value in volume.admin_metadata.items() if name not in {ATTACH_TO, DELETES}}
    state.update(volume, {"admin_metadata": left})
    try:
        attach_volume(context, server, requested)
    except NovellaError as error:
        messages.of_volume(volume, messages.ATTACH, error.message)
