"""Volumes inside a guest: their state, mounts and extensions, by its guest agent."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from django.utils import timezone

from compute_agent.contract.calls import CallError
from compute_agent.contract.guest_disks import ExtendFileSystemRequest, InspectDiskCall, InspectedDisk, MountDiskRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, UnavailableError
from provisioning.compute import selectors
from provisioning.compute.actions.base import Prepared, R
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.actions.volumes import find_device, is_attached
from provisioning.compute.host_link.guest_agent import check_guest_agent
from provisioning.compute.launch.mounts import directory_problem
from provisioning.compute.models import BlockDevice, Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.records import instance_actions
from provisioning.compute.states import VmState
from provisioning.hosts import calls

RULE = "novella:servers:guest_disks"

TIMEOUT = 8.0
"""Seconds that a host has to answer; the guest agent has less."""
RECENT = timedelta(minutes=15)
"""Time for which the result of work is shown at the volume."""
LONGEST = 255
PROBLEMS = {
    "unsupported": "The guest agent does not answer.",
    "guest_programs_disabled": "The guest agent answers, but does not run programs: guest-exec is disabled in its "
    "configuration.",
    "guest_disk": "The guest agent could not examine the disk.",
}
"""Code of a host's answer → error message."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


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


@dataclass(frozen=True, slots=True)
class GuestWork:
    """The last work on a volume in a guest: the action's record name, whether it is running, why it has failed."""

    record: str
    running: bool
    failure: str


def inspect_disk(context: RequestContext, instance_id: uuid.UUID | str, volume_id: str) -> InspectedDisk:
    """Return the content and the mount point of a volume in a guest: untrusted texts of one line.

    Raises NotFoundError, ConflictError for a server that does not run, whose image has no guest agent, or that does not
    have the volume, and UnavailableError if the host or the guest agent does not answer.
    """
    instance = selectors.instance_for(context, instance_id)
    check_guest_agent(instance, "The disk cannot be examined")
    if instance.host_id is None or instance.vm_state != VmState.ACTIVE:
        raise ConflictError(f"Instance {instance.id} does not run.")
    device = attached_device(instance, volume_id)
    call = InspectDiskCall(instance_id=str(instance.id), serial=str(device.volume_id))
    result = calls.call(instance.host_id, call, timeout=TIMEOUT)
    if isinstance(result, InspectedDisk):
        return InspectedDisk(
            device=_line(result.device),
            content=result.content,
            kind=_line(result.kind)[:32],
            mount_point=_line(result.mount_point),
        )
    code = result.code if isinstance(result, CallError) else ""
    raise UnavailableError(PROBLEMS.get(code, "The disk cannot be examined now."))


def recent_work(instance_id: uuid.UUID) -> Mapping[str, GuestWork]:
    """Return volume id → the last work on it in the guest, which is running or has ended a short time ago."""
    names = (MountVolume.record, ExtendFileSystem.record)
    steps = InstanceActionEvent.objects.select_related("action").filter(
        action__instance_id=instance_id,
        action__action__in=names,
        name__in=[f"api_{name}" for name in names],
        action__started_at__gte=timezone.now() - RECENT,
    )
    return {
        step.detail.get("volume_id", ""): GuestWork(
            step.action.action, step.action.finished_at is None, step.action.message or ""
        )
        for step in steps.order_by("id")
    }


def _line(text: str) -> str:
    return _CONTROL.sub("\ufffd", text[:LONGEST])
