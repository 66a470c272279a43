"""Swap volumes: copy the data of an attached volume to another volume while the guest runs."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from msgspec.structs import replace

from compute_agent.contract.build import GuestDisk, InstanceSpec
from compute_agent.contract.commands import SwapVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute.actions.base import COULD_NOT, Prepared
from provisioning.compute.actions.volumes import (
    VolumeAction,
    device_of,
    find_device,
    is_attached,
    send_attach,
    send_removal,
)
from provisioning.compute.disks import block_devices
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.notifications import Note, notify
from provisioning.compute.records import instance_actions
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.volumes import selectors as volumes
from provisioning.volumes.models import Attachment
from provisioning.volumes.services import swap_sent, swapped
from provisioning.volumes.services.connections import attachments


@dataclass(frozen=True, slots=True)
class Swap:
    """The attached volume and its replacement, by the ids that the caller passed."""

    old: str
    new: str


class SwapVolume(VolumeAction[Swap, SwapVolumeRequest]):
    """Copy an attached volume to another one, switch the guest to it, and release the old one.

    Raises NotFoundError, and InvalidInputError for a volume that cannot be the replacement.
    """

    key = record = "swap_volume"
    done = "Volume swapped"
    notification = "volume_swap"
    from_states: ClassVar[tuple[VmState, ...]] = (VmState.ACTIVE, VmState.PAUSED, VmState.RESIZED)
    timeout = "BUILD_TIMEOUT"
    body = SwapVolumeRequest
    ends_by_report = True

    def start(self, context: RequestContext, instance: Instance, request: Swap, started: datetime) -> Instance:
        """Reserve the new volume and connect it; the command is sent when it is connected."""
        device = find_device(instance, request.old)
        if not self.offered(instance):
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
        host = self.host_of(instance, started)
        attachment = self._reserve(context, instance, device, request)
        detail = {"volume_id": str(device.volume_id), "new_volume_id": str(attachment.volume_id)}
        self.write_begin(context, instance, started, detail)
        more = {"old_volume_id": detail["volume_id"], "new_volume_id": detail["new_volume_id"]}
        notify(instance, f"{self.notification}.start", Note(context, more=more))
        attachments.connect(attachment, host)
        state.announce_all(instance, [{}])
        return instance

    def notification_fields(self, body: SwapVolumeRequest) -> Mapping[str, Any]:
        return {"old_volume_id": body.old.id, "new_volume_id": body.new.id}

    def device_notification_fields(self, device: BlockDevice) -> Mapping[str, Any]:
        return {"old_volume_id": str(device.volume_id), "new_volume_id": str(device.swap_volume_id)}

    def _reserve(self, context: RequestContext, instance: Instance, device: BlockDevice, request: Swap) -> Attachment:
        old, new = (
            volumes.volume_for(context.in_project(instance.project_id), each) for each in (request.old, request.new)
        )
        if device.leaving or device.swap_attachment_id is not None or not is_attached(device):
            raise InvalidInputError(f"Invalid volume: Volume {old.id} must be attached and idle.", field="volumeId")
        if new.size_gb < old.size_gb:
            raise InvalidInputError("Invalid volume: New volume must be the same size or larger.", field="volumeId")
        if old.multiattach:
            raise InvalidInputError("Invalid volume: A multiattach volume cannot be swapped.", field="volumeId")
        try:
            owner = context.in_project(instance.project_id)
            row = attachments.reserve(owner, new.id, instance.id, mountpoint=device.device_name)
        except (ConflictError, InvalidInputError) as error:
            raise InvalidInputError(f"Invalid volume: {error.message}", field="volumeId") from error
        BlockDevice.objects.filter(id=device.id).update(swap_attachment_id=row.id, swap_volume_id=new.id)
        return row

    def command(self, instance: Instance, prepared: Prepared) -> SwapVolumeRequest:
        """Describe the guest with the new disk."""
        device: BlockDevice = prepared.value
        rows = Attachment.objects.select_related("volume").in_bulk([device.attachment_id, device.swap_attachment_id])
        old = block_devices.guest_disk(device, rows[_key(device.attachment_id)])
        new = block_devices.guest_disk(device, rows[_key(device.swap_attachment_id)])
        if device.swap_volume_id is None:  # the same volume in another pool
            new = replace(new, id=old.id, serial=old.serial)
        return SwapVolumeRequest(instance=_exchanged(guest_spec(instance), old.id, new), old=old, new=new)

    def go_on(self, instance: Instance, device: BlockDevice) -> None:
        """Send the command once the new volume is connected to the host."""
        if instance.host is not None:
            self.send(instance.host, instance, self.command(instance, Prepared(value=device)))

    def move(self, instance: Instance, device: BlockDevice, new_attachment_id: str) -> bool:
        """Switch the guest to the copy of its volume in another pool. Returns False when that is not possible.

        Called inside the caller's transaction, with the server locked.
        """
        if instance.vm_state not in self.from_states or instance.host is None or not is_attached(device):
            return False
        if device.swap_attachment_id is not None:
            return str(device.swap_attachment_id) == new_attachment_id
        if not Attachment.objects.filter(id=new_attachment_id).exists():
            return False
        device.swap_attachment_id = uuid.UUID(new_attachment_id)
        BlockDevice.objects.filter(id=device.id).update(swap_attachment_id=device.swap_attachment_id)
        self.go_on(instance, device)
        swap_sent(new_attachment_id)
        return True

    def give_up(self, instance: Instance, device: BlockDevice, message: str) -> None:
        """Abort the swap when the new volume could not be connected."""
        self.drop(device)
        self.report_failure(instance, device, message)

    def drop(self, device: BlockDevice) -> None:
        """Release the replacement volume."""
        BlockDevice.objects.filter(id=device.id).update(swap_attachment_id=None, swap_volume_id=None)
        if device.swap_attachment_id is not None:
            attachments.release(device.swap_attachment_id)

    def end_unrecorded(self, instance: Instance, device: BlockDevice, new: uuid.UUID) -> None:
        """End a swap, or a move of the volume's data, that the host has completed although the records contain no
        command of it.

        The server is locked.
        """
        row = instance_actions.of_volume(instance.id, self.record, str(device.volume_id))
        if device.swap_volume_id is not None:
            _exchange(device)
        else:
            BlockDevice.objects.filter(id=device.id).update(attachment_id=new, swap_attachment_id=None, plugged=True)
            swapped(new)
        if row is not None:
            self.close(row, None)
        state.announce_all(instance, [{}])

    def end(self, instance: Instance, body: SwapVolumeRequest, outcome: Outcome) -> Instance | None:
        """Release the old volume after success, or the replacement after a failure.

        If the replacement was detached concurrently, the old volume is attached again to a guest that has switched
        to the replacement. If the action moves one volume's data to another pool, Block Storage is notified which copy
        the guest uses.
        """
        device = BlockDevice.objects.filter(swap_attachment_id=body.new.attachment_id).first()
        there = Attachment.objects.filter(id=body.new.attachment_id).exists()
        if there and body.new.id == body.old.id:
            _moved(instance, device, body, outcome)
        elif not there:
            BlockDevice.objects.filter(swap_attachment_id=body.new.attachment_id).update(
                swap_attachment_id=None, swap_volume_id=None
            )
            if outcome.well:
                _put_back(instance, body)
        elif device is not None and outcome.well:
            _exchange(device)
        elif device is not None:
            self.drop(device)
        return super().end(instance, body, outcome)


def _exchange(device: BlockDevice) -> None:
    """Record the new volume as the volume of the disk, and release the old one."""
    attachments.complete(_key(device.swap_attachment_id), device.device_name)
    BlockDevice.objects.filter(id=device.id).update(
        volume_id=device.swap_volume_id,
        attachment_id=device.swap_attachment_id,
        swap_volume_id=None,
        swap_attachment_id=None,
    )
    if device.attachment_id is not None:
        attachments.release(device.attachment_id)


def _put_back(instance: Instance, body: SwapVolumeRequest) -> None:
    """Unplug the new disk, and plug in the old one if it is still attached to the server."""
    send_removal(instance, uuid.UUID(body.new.id), body.new.attachment_id)
    device = device_of(body.old.attachment_id)
    if device is not None and is_attached(device):
        send_attach(instance, device)


def _moved(instance: Instance, device: BlockDevice | None, body: SwapVolumeRequest, outcome: Outcome) -> None:
    """Report to Block Storage whether the guest now uses the volume's data in the new pool.

    ``device`` is None if an operator has detached the volume concurrently; then the new disk is unplugged as well.
    """
    new = uuid.UUID(body.new.attachment_id)
    columns: dict[str, uuid.UUID | None] = {"swap_attachment_id": None}
    if outcome.well:
        columns["attachment_id"] = new
    if device is not None:
        BlockDevice.objects.filter(id=device.id).update(**columns)
    swapped(new, failed="" if outcome.well else outcome.message or COULD_NOT, reported=True)
    if device is None and outcome.well:
        send_removal(instance, uuid.UUID(body.new.id), body.new.attachment_id)
        attachments.release(new)


def swap_volume(context: RequestContext, instance_id: uuid.UUID | str, old: str, new: str) -> None:
    """Replace an attached volume by another one. Raises the errors of ``SwapVolume``."""
    SwapVolume.begin(context, instance_id, Swap(old, new))


def _exchanged(spec: InstanceSpec, old: str, new: GuestDisk) -> InstanceSpec:
    return replace(spec, volumes=[new if disk.id == old else disk for disk in spec.volumes])


def _key(attachment_id: uuid.UUID | None) -> uuid.UUID:
    if attachment_id is None:
        raise ConflictError("The volume is not attached.")
    return attachment_id
