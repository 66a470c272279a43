"""ModifyVolume, DescribeVolumesModifications, and DescribeVolumeStatus: whether the data of a volume can be reached."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from portal.api.ec2 import names
from portal.api.ec2.actions.volumes import shapes
from portal.api.ec2.actions.volumes.shapes import NO_TYPE, volume_of, volumes_of
from portal.api.ec2.describe import NOTHING, Column, Described, members, nothing
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from portal.api.ec2.volume_types import SPEEDS, of_amazon, store_requested, type_asked
from provisioning.ec2 import given, ids
from provisioning.volumes import services
from provisioning.volumes.errors import BeingModifiedError
from provisioning.volumes.models import Volume, VolumeModification
from provisioning.volumes.selectors.pools import is_up


@action(
    "ModifyVolume",
    "volume:extend",
    "volume:retype",
    takes="VolumeId Size VolumeType Iops Throughput",
    missing=names.VOLUME.missing,
    over_quota={"per_volume_gigabytes": "InvalidParameterValue"},
)
def modify_volume(call: Call) -> dict[str, Any]:
    """Extend or retype a volume, also while it is attached."""
    ec2_id = call.arguments["VolumeId"]
    volume = volume_of(call, ec2_id)
    size, before = call.get("Size"), given.value_of(volume.id, given.VOLUME_TYPE) or {}
    values = {name: call.arguments[name] for name in (*SPEEDS, "VolumeType") if call.get(name) is not None}
    if size is None and not values:
        raise errors.combination("The request must contain at least one of the parameters Size and VolumeType")
    wanted_type = type_asked(call.context, values.get("VolumeType"))
    requested = of_amazon(values if "VolumeType" in values else before | values, wanted_type)
    try:
        row = services.modify_volume(call.context, volume.id, size_gb=size, volume_type=wanted_type)
    except BeingModifiedError as error:
        raise Ec2Error("IncorrectModificationState", error.message) from error
    store_requested(volume.project_id, volume.id, requested)
    words = {"Original": before, "Target": requested or {}}
    types = {
        f"{which}{name}": each[name]
        for which, each in words.items()
        for name in (*SPEEDS, "VolumeType")
        if name in each
    }
    given.keep(volume.project_id, volume.id, {given.MODIFICATION: types})
    return {"VolumeModification": _shape(volume, row, ec2_id) | types}


def _rows(call: Call) -> QuerySet[Volume]:
    """Return the volumes with a modification. With ids, return all volumes: `_shapes` rejects the others."""
    rows = volumes_of(call.context).select_related("modification")
    return rows if call.get("VolumeIds") else rows.filter(modification__isnull=False)


def _shapes(volumes: Sequence[Volume]) -> list[dict[str, Any]]:
    """Return the modifications of volumes. Raises Ec2Error for a volume without a modification."""
    known = ids.ids_of(names.VOLUME.prefix, [volume.id for volume in volumes])
    never = [known[volume.id] for volume in volumes if _row(volume) is None]
    if never:
        raise Ec2Error("InvalidVolumeModification.NotFound", f"Modification for volume '{never[0]}' does not exist.")
    requested = {key: each.get(given.MODIFICATION, {}) for key, each in given.values_of(known).items()}
    return [
        _shape(volume, row, known[volume.id]) | requested.get(volume.id, {})
        for volume in volumes
        if (row := _row(volume)) is not None
    ]


def _row(volume: Volume) -> VolumeModification | None:
    return getattr(volume, "modification", None)


def _shape(volume: Volume, row: VolumeModification, ec2_id: str) -> dict[str, Any]:
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


def _statuses(volumes: Sequence[Volume]) -> list[dict[str, Any]]:
    known = ids.ids_of(names.VOLUME.prefix, [volume.id for volume in volumes])
    return [_status_shape(volume, known[volume.id]) for volume in volumes]


def _status_shape(volume: Volume, ec2_id: str) -> dict[str, Any]:
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
    state = shapes.of_volume(volume)
    if state == shapes.ERROR:
        return "impaired"
    if state == shapes.CREATING:
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
