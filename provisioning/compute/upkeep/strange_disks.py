"""Volumes that guests have open without an attachment: lost attachments are restored, others are reported."""

import logging
import uuid
from collections.abc import Collection, Sequence

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.messages import GuestState
from provisioning.common.database.retry import when_broken_off
from provisioning.common.values.ids import read_id
from provisioning.compute.actions.volumes import send_removal
from provisioning.compute.disks import block_devices, device_names
from provisioning.compute.models import BlockDevice, Instance, InstanceActionEvent
from provisioning.compute.records import host_commands
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.compute.upkeep.reconcile import SETTLED
from provisioning.volumes.inbound import kept_open, older_records
from provisioning.volumes.models import Attachment, Volume

log = logging.getLogger(__name__)


def send_detachments(host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
    """Unplug volumes that the host's guests should not have; ``complete`` as in ``reconcile.compare``.

    A volume without a record is ignored, because the record may have been lost.
    """
    has = {
        key: {volume for each in guest.volumes if (volume := read_id(each)) is not None}
        for guest in guests
        if guest.volumes and (key := read_id(guest.instance_id)) is not None
    }
    if not has:
        return
    known, held = _attached(has), kept_open.held_on(host_id).keys()
    for key in sorted(has):
        strange = has[key] - known.get(key, set()) | has[key] & held
        if strange and Volume.objects.filter(id__in=strange).exists():
            _settle(host_id, key, strange, complete=complete)


def _attached(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, set[uuid.UUID]]:
    """Return server → its volumes; during a migration both the volume and its copy."""
    result: dict[uuid.UUID, set[uuid.UUID]] = {}
    rows = Attachment.objects.filter(instance_id__in=ids)
    for key, volume_id, other in rows.values_list("instance_id", "volume_id", "volume__migration_of"):
        if key is not None:
            result.setdefault(key, set()).update({volume_id} | ({other} if other else set()))
    return result


@when_broken_off
def _settle(host_id: uuid.UUID, instance_id: uuid.UUID, strange: Collection[uuid.UUID], *, complete: bool) -> None:
    with transaction.atomic():
        instance = locked_at_rest(host_id, instance_id, complete=complete)
        if instance is None:
            return
        held = kept_open.held_on(host_id)
        strange = set(strange) - (_attached([instance.id]).get(instance.id, set()) - held.keys())
        for volume in Volume.objects.filter(id__in=strange).order_by("id"):
            if volume.id in held:
                attach_reported(instance, volume, held[volume.id])
                continue
            if _may_be_rightful(instance, volume):
                continue
            log.warning(
                "The guest of instance %s has volume %s without an attachment; unplugging it.", instance.id, volume.id
            )
            send_removal(instance, volume.id)


def locked_at_rest(host_id: uuid.UUID, instance_id: uuid.UUID, *, complete: bool) -> Instance | None:
    """Lock and return a server of a host; None while it has a task or command, or when the report may be outdated."""
    state.lock([instance_id])
    instance = Instance.objects.select_related("host").filter(id=instance_id, host_id=host_id).first()
    if instance is None or instance.task_state is not None or instance.vm_state == VmState.DELETED:
        return None
    if host_commands.is_busy_with(instance.id):
        return None
    return instance if complete or instance.updated_at < timezone.now() - SETTLED else None


def _may_be_rightful(instance: Instance, volume: Volume) -> bool:
    """Whether the server may have the volume according to lost records; then the volume is not unplugged.

    Either the records of the volume were restored and its host has not reported since, or these records never attached
    it to the server, and no other guest can have it open.
    """
    if older_records.is_unheard(volume):
        return True
    open_elsewhere = Attachment.objects.filter(volume_id=volume.id).exclude(connection={})
    return not was_given(instance, volume.id) and not open_elsewhere.exists()


def attach_reported(instance: Instance, volume: Volume, attachment: Attachment) -> None:
    """Attach the guest's volume to a locked server, in the caller's transaction.

    Ignored for a volume of another project, because a host's report alone does not justify it.
    """
    if volume.project_id != instance.project_id:
        log.warning("The guest of instance %s has the volume %s of another project.", instance.id, volume.id)
        return
    device = _device(instance, volume)
    if kept_open.assign(attachment, instance.id, device.device_name):
        device.attachment_id, device.plugged, device.leaving = attachment.id, True, False
        device.save()
        state.announce_all(instance, [{}])
        log.warning("Instance %s got the volume %s back, which its guest has.", instance.id, volume.id)


def was_given(instance: Instance, volume_id: uuid.UUID) -> bool:
    """Whether the server's history contains an attachment or detachment of the volume."""
    steps = InstanceActionEvent.objects.filter(action__instance_id=instance.id, detail__volume_id=str(volume_id))
    return steps.exists()


def _device(instance: Instance, volume: Volume) -> BlockDevice:
    """Return the disk of the volume, or a new one with the next free name, which may differ from the guest's."""
    devices = block_devices.devices_of(instance.id)
    for each in devices:
        if each.volume_id == volume.id:
            return each
    device = BlockDevice(
        instance=instance,
        position=max((each.position for each in devices), default=-1) + 1,
        source_type="volume",
        destination_type="volume",
        volume_id=volume.id,
        size=volume.size_gb,
    )
    hardware = device_names.hardware_of(instance.image_properties, instance.flavor)
    device_names.choose([device], device_names.taken(instance, devices), hardware)
    return device
