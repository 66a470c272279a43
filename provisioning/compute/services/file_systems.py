"""File systems of a server, requested from its guest agent through its host."""

import re
import uuid
from collections.abc import Iterable

from compute_agent.contract.calls import MOST_FILE_SYSTEMS, CallError, FileSystem, FileSystems, FileSystemsCall
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, UnavailableError
from provisioning.compute import selectors
from provisioning.compute.host_link.guest_agent import check_guest_agent
from provisioning.compute.states import VmState
from provisioning.hosts import calls

RULE = "novella:servers:file_systems"
TIMEOUT = 8.0
"""Seconds that a host has to answer; the guest agent has less."""
LONGEST_PATH = 255
MOST_BYTES = 1 << 60
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def file_systems(context: RequestContext, instance_id: uuid.UUID | str) -> list[FileSystem]:
    """Return the mounted file systems. Mount points are untrusted texts of one line; implausible sizes are None.

    Raises NotFoundError, ConflictError for a server that does not run or whose image has no guest agent, and
    UnavailableError if the host or the guest agent does not answer.
    """
    instance = selectors.instance_for(context, instance_id)
    check_guest_agent(instance, "The file systems cannot be read")
    if instance.host_id is None or instance.vm_state != VmState.ACTIVE:
        raise ConflictError(f"Instance {instance.id} does not run.")
    result = calls.call(instance.host_id, FileSystemsCall(instance_id=str(instance.id)), timeout=TIMEOUT)
    if isinstance(result, FileSystems):
        return [_plausible(each) for each in result.file_systems[:MOST_FILE_SYSTEMS]]
    if isinstance(result, CallError) and result.code in {"not_found", "unsupported"}:
        raise UnavailableError("The guest agent does not answer.")
    raise UnavailableError("The file systems cannot be read now.")


def mount_points(listed: Iterable[FileSystem], device: str) -> list[str]:
    """Return the mount points on a disk; ``device`` is its path or name in the guest."""
    name = device.removeprefix("/dev/")
    return sorted(each.mount_point for each in listed if name and name in each.disks)


def _plausible(file_system: FileSystem) -> FileSystem:
    total, used = file_system.total_bytes, file_system.used_bytes
    known = total is not None and used is not None and 0 <= used <= total <= MOST_BYTES
    return FileSystem(
        mount_point=_CONTROL.sub("�", file_system.mount_point[:LONGEST_PATH]),
        kind=_CONTROL.sub("�", file_system.kind[:32]),
        total_bytes=total if known else None,
        used_bytes=used if known else None,
        disks=[name[:32] for name in file_system.disks[:16]],
    )
