"""Hand off: the whole guest as one durable order to its host."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from compute_agent.contract.build import FlavorRef, ImageRef, InjectedFile, InstanceSpec, KeyPairRef, PortRef
from compute_agent.contract.orders import BuildRequest
from provisioning.common.errors import NotFoundError
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.services import actions, passwords, state
from provisioning.compute.states import TaskState
from provisioning.images.models import Image
from provisioning.network import selectors as network
from provisioning.rpc import hosts
from provisioning.scheduler import HostState


def hand_off(instance: Instance, host: HostState, action: InstanceAction) -> InstanceActionEvent | None:
    """Write the order to the host and move the instance through ``block_device_mapping`` to ``spawning``.

    Inside the caller's transaction.  Returns the step to be written, None when the launch has moved on.  Raises
    NotFoundError when the image is gone.
    """
    started = timezone.now()
    image = image_of(instance)
    if image is None:
        raise NotFoundError("The image was removed before the server could be built.", field="imageRef")
    moves = ["spawn"] if instance.task_state == TaskState.BLOCK_DEVICE_MAPPING else ["map_block_devices", "spawn"]
    if state.walk(instance, moves, attempt=instance.attempt) is None:
        return None
    body = BuildRequest(instance=spec_of(instance, host, image, network.port_refs(instance.id)))
    hosts.command(host.id, instance.id, instance.attempt, body, started + timedelta(seconds=settings.BUILD_TIMEOUT))
    return actions.step(action, "hand_off", actions.since(started), attempt=instance.attempt, host=host.name)


def image_of(instance: Instance) -> Image | None:
    """Return the image of an instance while it can still be used."""
    if instance.image_id is None:
        return None
    return Image.objects.filter(id=instance.image_id, status=Image.Status.ACTIVE).first()


def spec_of(instance: Instance, host: HostState, image: Image, ports: list[PortRef]) -> InstanceSpec:
    """Write the guest as its host is told of it."""
    flavor = instance.flavor
    return InstanceSpec(
        uuid=str(instance.id),
        name=instance.name,
        hostname=instance.hostname,
        project_id=str(instance.project_id),
        user_id=str(instance.user_id),
        image=ImageRef(
            id=str(image.id),
            name=image.name,
            disk_format=image.disk_format or "",
            size=image.size or 0,
            hash_algo=image.os_hash_algo or "",
            hash_value=image.os_hash_value or "",
            min_disk=image.min_disk,
            min_ram=image.min_ram,
            properties={str(key): str(value) for key, value in image.properties.items()},
        ),
        flavor=FlavorRef(
            name=flavor["name"],
            vcpus=flavor["vcpus"],
            memory_mb=flavor["memory_mb"],
            root_gb=flavor["root_gb"],
            ephemeral_gb=flavor["ephemeral_gb"],
            swap_mb=flavor["swap_mb"],
            extra_specs={str(key): str(value) for key, value in flavor["extra_specs"].items()},
        ),
        ports=ports,
        key_pair=KeyPairRef(name=instance.key_name or "", public_key=instance.public_key)
        if instance.public_key
        else None,
        user_data=instance.user_data,
        metadata=instance.metadata,
        config_drive=instance.config_drive,
        availability_zone=host.availability_zone,
        admin_password=passwords.opened(instance),
        injected_files=[InjectedFile(path=file["path"], contents=file["contents"]) for file in instance.injected_files],
        created_at=instance.created_at.isoformat(),
        launch_index=instance.launch_index,
        reservation_id=instance.reservation_id,
    )
