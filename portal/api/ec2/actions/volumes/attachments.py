"""AttachVolume and DetachVolume."""

from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.volumes import shapes
from portal.api.ec2.actions.volumes.shapes import instance_of, volume_of, volumes_of
from portal.api.ec2.devices import guest_name, is_guest_name
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.volumes import VolumeToAttach, attach_volume, detach_volume
from provisioning.compute.errors import DifferentZoneError, TooManyDisksError
from provisioning.ec2 import given
from provisioning.identity import policy
from provisioning.volumes import services
from provisioning.volumes.models import Attachment, Volume

INCORRECT = "IncorrectState"
NO_ATTACHMENT = "InvalidAttachment.NotFound"


@action(
    "AttachVolume",
    "os_compute_api:os-volumes-attachments:create",
    takes="VolumeId InstanceId Device",
    missing=names.INSTANCE.missing,
)
def attach(call: Call) -> dict[str, Any]:
    """Attach a volume to an instance; the attachment is complete when its state is ``attached``."""
    ec2_id, requested = call.arguments["VolumeId"], call.arguments["Device"]
    volume = volume_of(call, ec2_id)
    instance = instance_of(call, call.arguments["InstanceId"])
    device = guest_name(requested)
    if not is_guest_name(device):
        raise errors.invalid_value("unixDevice", requested, f"{requested[:64]} is not a valid device name.")
    there = list(volume.attachments.all())
    if any(each.instance_id == instance.id for each in there) or (there and not volume.multiattach):
        raise Ec2Error("VolumeInUse", f"{ec2_id} is already attached to an instance")
    try:
        made = attach_volume(call.context, instance.id, VolumeToAttach(str(volume.id), device=device))
    except DifferentZoneError as error:
        raise Ec2Error("InvalidVolume.ZoneMismatch", error.message) from error
    except TooManyDisksError as error:
        raise Ec2Error("AttachmentLimitExceeded", error.message) from error
    except InvalidInputError as error:
        raise _in_this_state(error) from error
    if made.device_name[-1] != device[-1]:  # the guest's bus may differ
        raise errors.invalid_value("unixDevice", requested, f"Attachment point {requested[:64]} is already in use")
    given.keep(instance.project_id, made.id, {given.DEVICE: requested})
    shape = _shape(call, volume, made.attachment_id)
    return shape or {"VolumeId": ec2_id, "State": "attaching"}


@action(
    "DetachVolume",
    "os_compute_api:os-volumes-attachments:delete",
    takes="VolumeId InstanceId Device Force",
    missing=NO_ATTACHMENT,
)
def detach(call: Call) -> dict[str, Any]:
    """Detach a volume from its instance once the guest has released it; ``Force`` requires an operator."""
    if call.get("Force", False):
        policy.enforce(call.context, FORCE)
    volume = volume_of(call, call.arguments["VolumeId"])
    attachment = _meant(call, volume)
    before = _shape(call, volume, attachment.id) or {}
    if call.get("Force", False):
        services.force_detach(call.context, volume.id, attachment.id)
    else:
        _let_go(call, volume, attachment)
    return _shape(call, volume, attachment.id) or {**before, "State": "detached"}


FORCE = "volume_extension:volume_admin_actions:force_detach"


def _let_go(call: Call, volume: Volume, attachment: Attachment) -> None:
    if attachment.instance_id is None:
        why = "The volume is attached by a client of the Block Storage API, which has to detach it"
        raise Ec2Error("OperationNotPermitted", why)
    device = shapes.related([volume]).devices.get(attachment.id)
    if device is not None and device.is_root:
        raise Ec2Error("OperationNotPermitted", f"Unable to detach root volume '{call.arguments['VolumeId']}'")
    try:
        detach_volume(call.context, attachment.instance_id, str(volume.id))
    except InvalidInputError as error:
        raise _in_this_state(error) from error


def _meant(call: Call, volume: Volume) -> Attachment:
    """Return the attachment that the request specifies. Raises Ec2Error if there is none, or if the request matches
    several.
    """
    there = list(volume.attachments.all())
    ec2_id = call.arguments["VolumeId"]
    if not there:
        raise Ec2Error(INCORRECT, f"Volume '{ec2_id}' is in the '{shapes.of_volume(volume)}' state.")
    instance, device = call.get("InstanceId"), call.get("Device")
    if instance:
        key = instance_of(call, instance).id
        there = [each for each in there if each.instance_id == key]
    if device:
        there = [each for each in there if each.mountpoint in {device, guest_name(device)}]
    if not there:
        raise Ec2Error(NO_ATTACHMENT, f"Volume '{ec2_id}' is not attached to this instance as this device")
    if len(there) > 1:
        raise errors.combination("The volume is attached to several instances: specify the parameter InstanceId")
    return there[0]


def _shape(call: Call, volume: Volume, attachment_id: object) -> dict[str, Any] | None:
    """Return the current representation of an attachment; None if it no longer exists."""
    fresh = volumes_of(call.context).get(id=volume.id)
    found = next((each for each in fresh.attachments.all() if each.id == attachment_id), None)
    return shapes.attachment_shape(found, shapes.related([fresh])) if found else None


def _in_this_state(error: InvalidInputError) -> Exception:
    """Return IncorrectState for an error about the state of the volume or server, and any other error unchanged."""
    return Ec2Error(INCORRECT, error.message) if error.field == "volumeId" else error
