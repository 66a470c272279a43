"""Volumes in a guest, which its guest agent examines, mounts and extends: Novella's own Compute operations."""

from typing import Any

from compute_agent.contract.guest_disks import DIRECTORY, LONGEST_DIRECTORY, InspectedDisk
from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.schemas import Schema, Version
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.compute.actions.guest_disks import RULE, ExtendFileSystem, MountVolume, VolumeToMount
from provisioning.compute.actions.inspected_disks import inspect_disk

CONTENTS = {"empty": "empty", "filesystem": "file_system", "other": "other"}


def action(version: Version) -> Schema:
    """Return the schema of ``POST``, equal at every microversion: one action."""
    directory = {"type": "string", "maxLength": LONGEST_DIRECTORY, "pattern": rf"^{DIRECTORY}\Z"}
    mount = {
        "type": "object",
        "properties": {"directory": directory},
        "required": ["directory"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"mount": mount, "extend_file_system": {"type": "null"}},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _shape(view: ComputeView, found: InspectedDisk) -> dict[str, Any]:
    return {
        "volume_id": view.kwargs["volume_id"],
        "device": found.device,
        "content": CONTENTS[found.content],
        "type": found.kind or None,
        "mount_point": found.mount_point or None,
    }


def _act(context: RequestContext, server_id: str, volume_id: str, body: dict[str, Any]) -> None:
    if "mount" in body:
        MountVolume.begin(context, server_id, VolumeToMount(volume_id, body["mount"]["directory"]))
    else:
        ExtendFileSystem.begin(context, server_id, volume_id)


PARTS = parts(
    ComputeView,
    "servers/{server_id}/novella-guest-disks/{volume_id}",
    {
        "GET": Call(
            inspect_disk,
            RULE,
            "Ask the guest agent for the content and the mount point of a volume; nothing is changed.",
            name="guest_disk",
            shape=_shape,
        ),
        "POST /action": Call(
            _act,
            RULE,
            "Let the guest agent mount a volume now and at each start, after formatting it if it is empty, or extend"
            " its mounted file system to the size of the volume.",
            status=202,
            body=action,
        ),
    },
)
