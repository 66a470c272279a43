"""Commands to hosts that the tasks of volumes wait for: swapping a guest's volume and resizing its disk."""

import uuid
from datetime import datetime

from compute_agent.contract.commands import RefreshVolumeRequest, SwapVolumeRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.common.values.ids import NOBODY
from provisioning.compute.models import Instance
from provisioning.compute.records import host_commands
from provisioning.hosts.models import HostCommand
from provisioning.volumes.models import Attachment
from provisioning.volumes.services import extend_guest_deadline

SWAP = str(SwapVolumeRequest.__struct_config__.tag)
KINDS = (SWAP, str(RefreshVolumeRequest.__struct_config__.tag))


def unfinished(attachment: Attachment) -> list[HostCommand]:
    """Return the unfinished commands about an attachment, of the server's current host and attempt."""
    instance = Instance.objects.filter(id=attachment.instance_id or NOBODY).first()
    if instance is None:
        return []
    rows = host_commands.unfinished(instance.id).filter(kind__in=KINDS, generation=instance.attempt)
    rows = rows.filter(host_id=instance.host_id or NOBODY)
    return [command for command in rows if _attachment_of(command) == str(attachment.id)]


def goes_on(command: HostCommand, until: datetime) -> None:
    """Extend the deadline of the volume's task while a host works on its command."""
    if command.kind in KINDS:
        extend_guest_deadline(uuid.UUID(_attachment_of(command)), until)


def _attachment_of(command: HostCommand) -> str:
    """Return the id of a command's attachment; for a swap, of the new volume's attachment."""
    body = decode_command_body(command.body)
    match body:
        case SwapVolumeRequest(new=disk) | RefreshVolumeRequest(disk=disk):
            return disk.attachment_id
    return str(NOBODY)
