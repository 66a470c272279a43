"""Volumes inside a guest: mounted and extended by its guest agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from compute_agent.contract.guest_disks import ExtendFileSystemRequest, MountDiskRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute.actions.base import Prepared, R
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.actions.volumes import find_device, is_attached
from provisioning.compute.launch.mounts import directory_problem
from provisioning.compute.models import BlockDevice, Instance, InstanceAction
from provisioning.compute.records import instance_actions
from provisioning.compute.states import VmState

RULE = "novella:servers:guest_disks"


@dataclass(frozen=True, slots=True)
class VolumeToMount:
    """An attached volume, and the directory of the guest at which it is mounted."""

    volume_id: str
    directory: str


B = TypeVar("B", MountDiskRequest, ExtendFileSystemRequest)


class _InGuest(TasklessAction[R, B], Generic[R, B]):
    """Base of the actions on a volume in a guest; ``volume_id`` is in the first step of the action record."""

    rule = RULE
    takes_request = True
    from_states: ClassVar[tuple[VmState, ...]] = (VmState.ACTIVE,)
    timeout = "POWER_TIMEOUT"
    one_at_a_time = True

    def notification_fields(self, body: B) -> Mapping[str, Any]:
        return {"volume_id": body.serial}

    def row_of(self, instance: Instance, body: B) -> InstanceAction | None:
        return instance_actions.of_volume(instance.id, self.record, body.serial)


def attached_device(instance: Instance, volume_id: str) -> BlockDevice:
    """Return the disk of a volume that the guest can mount. Raises NotFoundError, ConflictError."""
    device = find_device(instance, volume_id)
    if device.is_root or device.device_type not in {"", "disk"}:
        raise ConflictError(f"Volume {volume_id} is not a data disk of the server.")
    if not is_attached(device):
        raise ConflictError(f"Volume {volume_id} is being attached or detached.")
    return device


def _detail(device: BlockDevice, **more: str) -> Mapping[str, str]:
    return {"volume_id": str(device.volume_id), **more}


class MountVolume(_InGuest[VolumeToMount, MountDiskRequest]):
    """Mount a volume at a directory, now and at each start; an empty volume is formatted with ext4 before.

    Raises NotFoundError, ConflictError, InvalidInputError for ``directory``.
    """

    key = record = "mount_volume"
    notification = "volume_mount"
    done = "Volume mounted"
    needs_agent = "The volume cannot be mounted"
    body = MountDiskRequest

    def prepare(self, context: RequestContext, instance: Instance, request: VolumeToMount) -> Prepared:
        directory = request.directory.strip().rstrip("/")
        if problem := directory_problem(directory):
            raise InvalidInputError(problem, field="directory")
        device = attached_device(instance, request.volume_id)
        body = MountDiskRequest(serial=str(device.volume_id), directory=directory)
        return Prepared(value=body, detail=_detail(device, directory=directory))

    def command(self, instance: Instance, prepared: Prepared) -> MountDiskRequest:
        body: MountDiskRequest = prepared.value
        return body


class ExtendFileSystem(_InGuest[str, ExtendFileSystemRequest]):
    """Extend the mounted file system of a volume, whose id is the request, to the size of the volume.

    Raises NotFoundError, ConflictError.
    """

    key = record = "extend_file_system"
    notification = "file_system_extend"
    done = "File system extended"
    needs_agent = "The file system cannot be extended"
    body = ExtendFileSystemRequest

    def prepare(self, context: RequestContext, instance: Instance, request: str) -> Prepared:
        device = attached_device(instance, request)
        return Prepared(value=ExtendFileSystemRequest(serial=str(device.volume_id)), detail=_detail(device))

    def command(self, instance: Instance, prepared: Prepared) -> ExtendFileSystemRequest:
        body: ExtendFileSystemRequest = prepared.value
        return body
