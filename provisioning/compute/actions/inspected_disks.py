"""The state of a volume inside a guest, requested from its guest agent; and the recent work on volumes there."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from compute_agent.contract.calls import CallError
from compute_agent.contract.guest_disks import InspectDiskCall, InspectedDisk
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, UnavailableError
from provisioning.compute import selectors
from provisioning.compute.actions.guest_disks import ExtendFileSystem, MountVolume, attached_device
from provisioning.compute.host_link.guest_agent import check_guest_agent
from provisioning.compute.models import InstanceActionEvent
from provisioning.compute.states import VmState
from provisioning.hosts import calls

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
