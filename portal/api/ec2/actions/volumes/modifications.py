"""AttachVolume, DetachVolume, ModifyVolume, DescribeVolumesModifications, and DescribeVolumeStatus: whether the data of
a volume can be reached.
"""

from collections.abc import Sequence

from django.db.models import QuerySet
from django.utils import timezone

from portal.api.ec2.actions.volumes import changes
from portal.api.ec2.actions.volumes.changes import NO_TYPE, instance_of, volume_of, volumes_of
from portal.api.ec2.describe import NOTHING, Column, Described, members, nothing
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.detach_volume import detach_volume
from provisioning.compute.errors import DifferentZoneError, TooManyDisksError
from provisioning.ec2 import given
from provisioning.volumes import services
from provisioning.volumes.errors import BeingModifiedError
from provisioning.volumes.models import Attachment, Volume, VolumeModification
from provisioning.volumes.selectors.pools import is_up

INCORRECT = "IncorrectState"
NO_ATTACHMENT = "InvalidAttachment.NotFound"


@action(
    "AttachVolume",
    "os_compute_api:os-volumes-attachments:create",
    takes="VolumeId InstanceId Device",
    missing=names.INSTANCE.missing,
)
def attach(call: Call) -> Shape:
    """Attach a volume to an instance; the attachment is complete when its state is ``attached``."""
    ec2_id, requested = call.arguments["VolumeId"], call.arguments["Device"]
    volume = volume_of(call, ec2_id)
    instance = instance_of(call, call.arguments["InstanceId"])
    device = names.guest_name(requested)
    if not names.is_guest_name(device):
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
    shape = _attachment(call, volume, made.attachment_id)
    return shape or {"VolumeId": ec2_id, "State": "attaching"}


@action(
    "DetachVolume",
    "os_compute_api:os-volumes-attachments:delete",
    takes="VolumeId InstanceId Device Force",
    missing=NO_ATTACHMENT,
)
def detach(call: Call) -> Shape:
    """Detach a volume from its instance once the guest has released it; ``Force`` requires an operator."""
    if call.get("Force", False):
        call.enforce(FORCE)
    volume = volume_of(call, call.arguments["VolumeId"])
    attachment = _meant(call, volume)
    before = _attachment(call, volume, attachment.id) or {}
    if call.get("Force", False):
        services.force_detach(call.context, volume.id, attachment.id)
    else:
        _let_go(call, volume, attachment)
    return _attachment(call, volume, attachment.id) or {**before, "State": "detached"}


FORCE = "volume_extension:volume_admin_actions:force_detach"


def _let_go(call: Call, volume: Volume, attachment: Attachment) -> None:
    if attachment.instance_id is None:
        why = "The volume is attached by a client of the Block Storage API, which has to detach it"
        raise Ec2Error("OperationNotPermitted", why)
    device = changes.related([volume]).devices.get(attachment.id)
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
        raise Ec2Error(INCORRECT, f"Volume '{ec2_id}' is in the '{changes.of_volume(volume)}' state.")
    instance, device = call.get("InstanceId"), call.get("Device")
    if instance:
        key = instance_of(call, instance).id
        there = [each for each in there if each.instance_id == key]
    if device:
        there = [each for each in there if each.mountpoint in {device, names.guest_name(device)}]
    if not there:
        raise Ec2Error(NO_ATTACHMENT, f"Volume '{ec2_id}' is not attached to this instance as this device")
    if len(there) > 1:
        raise errors.combination("The volume is attached to several instances: specify the parameter InstanceId")
    return there[0]


def _attachment(call: Call, volume: Volume, attachment_id: object) -> Shape | None:
    """Return the current representation of an attachment; None if it no longer exists."""
    fresh = volumes_of(call.context).get(id=volume.id)
    attachment = next((each for each in fresh.attachments.all() if each.id == attachment_id), None)
    return changes.attachment_shape(attachment, changes.related([fresh])) if attachment else None


def _in_this_state(error: InvalidInputError) -> Exception:
    """Return IncorrectState for an error about the state of the volume or server, and any other error unchanged."""
    return Ec2Error(INCORRECT, error.message) if error.field == "volumeId" else error


@action(
    "ModifyVolume",
    "volume:extend",
    "volume:retype",
    takes="VolumeId Size VolumeType Iops Throughput",
    missing=names.VOLUME.missing,
    over_quota={"per_volume_gigabytes": "InvalidParameterValue"},
)
def modify_volume(call: Call) -> Shape:
    """Extend or retype a volume, also while it is attached."""
    ec2_id = call.arguments["VolumeId"]
    volume = volume_of(call, ec2_id)
    size, before = call.get("Size"), given.value_of(volume.id, given.VOLUME_TYPE) or {}
    values = {name: call.arguments[name] for name in (*names.SPEEDS, "VolumeType") if call.get(name) is not None}
    if size is None and not values:
        raise errors.combination("The request must contain at least one of the parameters Size and VolumeType")
    volume_type = names.requested_type(call.context, values.get("VolumeType"))
    requested = names.of_amazon(values if "VolumeType" in values else before | values, volume_type)
    try:
        row = services.modify_volume(call.context, volume.id, size_gb=size, volume_type=volume_type)
    except BeingModifiedError as error:
        raise Ec2Error("IncorrectModificationState", error.message) from error
    names.store_requested(volume.project_id, volume.id, requested)
    words = {"Original": before, "Target": requested or {}}
    types = {
        f"{which}{name}": each[name]
        for which, each in words.items()
        for name in (*names.SPEEDS, "VolumeType")
        if name in each
    }
    given.keep(volume.project_id, volume.id, {given.MODIFICATION: types})
    return {"VolumeModification": _shape(volume, row, ec2_id) | types}


def _rows(call: Call) -> QuerySet[Volume]:
    """Return the volumes with a modification. With ids, return all volumes: `_shapes` rejects the others."""
    rows = volumes_of(call.context).select_related("modification")
    return rows if call.get("VolumeIds") else rows.filter(modification__isnull=False)


def _shapes(volumes: Sequence[Volume]) -> list[Shape]:
    """Return the modifications of volumes. Raises Ec2Error for a volume without a modification."""
    ec2_ids = names.VOLUME.ids_of([volume.id for volume in volumes])
    never = [ec2_ids[volume.id] for volume in volumes if _row(volume) is None]
    if never:
        raise Ec2Error("InvalidVolumeModification.NotFound", f"Modification for volume '{never[0]}' does not exist.")
    requested = {key: each.get(given.MODIFICATION, {}) for key, each in given.values_of(ec2_ids).items()}
    return [
        _shape(volume, row, ec2_ids[volume.id]) | requested.get(volume.id, {})
        for volume in volumes
        if (row := _row(volume)) is not None
    ]


def _row(volume: Volume) -> VolumeModification | None:
    return getattr(volume, "modification", None)


def _shape(volume: Volume, row: VolumeModification, ec2_id: str) -> Shape:
    state = "modifying" if row.ended_at is None else "failed" if row.failed else "completed"
    total = volume.progress_total
    return {
        "VolumeId": ec2_id,
        "ModificationState": state,
        "StatusMessage": "The volume does not have the requested size and type" if row.failed else None,
        "OriginalSize": row.original_size_gb,
        "TargetSize": row.target_size_gb,
        "OriginalVolumeType": row.original_type or NO_TYPE,
        "TargetVolumeType": row.target_type or NO_TYPE,
        "OriginalMultiAttachEnabled": row.original_multiattach,
        "TargetMultiAttachEnabled": row.target_multiattach,
        "Progress": 100 if state == "completed" else volume.progress_bytes * 100 // total if total else 0,
        "StartTime": row.started_at,
        "EndTime": row.ended_at,
    }


DESCRIBE_VOLUMES_MODIFICATIONS = Described(
    action="DescribeVolumesModifications",
    rule="volume:get_all",
    member="VolumesModifications",
    kind=names.VOLUME,
    ids="VolumeIds",
    ids_exclude_pages=True,
    ignored="IncludeManagedResources",
    rows=_rows,
    shape=lambda call, volumes: _shapes(volumes),
    tags=None,
    filters={
        **members("ModificationState OriginalVolumeType StartTime TargetVolumeType"),
        "original-iops": NOTHING,
        "original-size": Column("OriginalSize", "modification__original_size_gb"),
        "originalMultiAttachEnabled": "OriginalMultiAttachEnabled",
        "target-iops": NOTHING,
        "target-size": Column("TargetSize", "modification__target_size_gb"),
        "targetMultiAttachEnabled": "TargetMultiAttachEnabled",
        "volume-id": Column("VolumeId", "pk", names.VOLUME),
    },
)


_IO = {"ok": "passed", "impaired": "failed", "insufficient-data": "insufficient-data"}


def _statuses(volumes: Sequence[Volume]) -> list[Shape]:
    ec2_ids = names.VOLUME.ids_of([volume.id for volume in volumes])
    return [_status_shape(volume, ec2_ids[volume.id]) for volume in volumes]


def _status_shape(volume: Volume, ec2_id: str) -> Shape:
    status = _status(volume)
    return {
        "VolumeId": ec2_id,
        "AvailabilityZone": volume.availability_zone,
        "AvailabilityZoneId": volume.availability_zone,
        "VolumeStatus": {
            "Status": status,
            "Details": [
                {"Name": "io-enabled", "Status": _IO[status]},
                {"Name": "io-performance", "Status": "not-applicable"},
            ],
        },
        "Events": [],
        "Actions": [],
    }


def _status(volume: Volume) -> str:
    state = changes.of_volume(volume)
    if state == changes.ERROR:
        return "impaired"
    if state == changes.CREATING:
        return "insufficient-data"
    return "ok" if volume.pool is not None and is_up(volume.pool, timezone.now()) else "impaired"


DESCRIBE_VOLUME_STATUS = Described(
    action="DescribeVolumeStatus",
    rule="volume:get_all",
    member="VolumeStatuses",
    kind=names.VOLUME,
    ids="VolumeIds",
    ids_exclude_pages=True,
    ignored="IncludeManagedResources",
    rows=lambda call: volumes_of(call.context),
    shape=lambda call, volumes: _statuses(volumes),
    tags=None,
    filters={
        "availability-zone": Column("AvailabilityZone", "availability_zone"),
        "volume-status.status": "VolumeStatus.Status",
        "volume-status.details-name": "VolumeStatus.Details[].Name",
        "volume-status.details-status": "VolumeStatus.Details[].Status",
        **nothing(
            "action.code action.description action.event-id attachment-status.instance-id "
            "attachment-status.io-performance event.description event.event-id event.event-type event.not-after "
            "event.not-before"
        ),
    },
)
