"""Update the disk of a volume on its server's host after the volume has changed."""

import logging

from django.utils import timezone

from compute_agent.contract.commands import RefreshVolumeRequest
from provisioning.common.context import cloud_in_project
from provisioning.compute.actions.base import COULD_NOT, Prepared
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.records import instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.volumes.models import Attachment
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.states import AttachStatus

log = logging.getLogger(__name__)


class RefreshVolume(TasklessAction[None, RefreshVolumeRequest]):
    """Update a volume's disk on the server's host; started by the system. Only an extend has an action record."""

    key, record = "refresh_volume", "extend_volume"
    done, doing = "Volume extended", "Extending a volume"
    timeout = "POWER_TIMEOUT"
    body = RefreshVolumeRequest

    def command(self, instance: Instance, prepared: Prepared) -> RefreshVolumeRequest:
        spec = guest_spec(instance)
        disk = next(disk for disk in spec.volumes if disk.attachment_id == str(prepared.value))
        return RefreshVolumeRequest(instance=spec, disk=disk)

    def end(self, instance: Instance, body: RefreshVolumeRequest, outcome: Outcome) -> Instance | None:
        """Report to the volume that the guest uses its new state; a failure is recorded as a fault of the server. An
        attachment that was connected to another host is complete in both cases.
        """
        attachment = Attachment.objects.filter(id=body.disk.attachment_id).select_related("volume").first()
        if attachment is not None and attachment.status == AttachStatus.ATTACHING:
            attachments.complete(attachment.id)
        if outcome.well:
            if attachment is not None:
                attachments.refreshed(attachment)
        else:
            log.warning("Volume %s of instance %s was not updated: %s", body.disk.id, instance.id, outcome.message)
            message = outcome.message or COULD_NOT
            record_fault(instance, message, details=f"{self.key}: {outcome.code}", host_name=instance.host_name)
        self.write_end(instance, instance_actions.current(instance.id, self.record), outcome)
        return instance


def send_refresh(instance: Instance, device: BlockDevice, *, extended: bool = False) -> None:
    """Update a disk on the server's host after its volume changed. ``extended``: the server gets an action record."""
    if instance.host is not None and extended:
        owner = cloud_in_project(instance.project_id, instance.user_id)
        RefreshVolume().write_begin(owner, instance, timezone.now(), {"volume": str(device.volume_id)})
    if instance.host is not None:
        RefreshVolume().send(
            instance.host, instance, RefreshVolume().command(instance, Prepared(value=device.attachment_id))
        )
