"""ModifyVolume and DescribeVolumesModifications."""

from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.volumes.describe import Found, listed
from portal.api.ec2.actions.volumes.found import volume_of, volumes_of
from portal.api.ec2.actions.volumes.shapes import NO_TYPE
from portal.api.ec2.filters import Filterable
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from portal.api.ec2.volume_types import SPEEDS, keep_asked, of_amazon, type_asked
from provisioning.ec2 import given, ids
from provisioning.volumes import services
from provisioning.volumes.errors import BeingModifiedError
from provisioning.volumes.models import Volume, VolumeModification


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
    said = {name: call.arguments[name] for name in (*SPEEDS, "VolumeType") if call.get(name) is not None}
    if size is None and not said:
        raise errors.combination("The request must contain at least one of the parameters Size and VolumeType")
    wanted_type = type_asked(call.context, said.get("VolumeType"))
    asked = of_amazon(said if "VolumeType" in said else before | said, wanted_type)
    try:
        row = services.modify_volume(call.context, volume.id, size_gb=size, volume_type=wanted_type)
    except BeingModifiedError as error:
        raise Ec2Error("IncorrectModificationState", error.message) from error
    keep_asked(volume.project_id, volume.id, asked)
    words = {"Original": before, "Target": asked or {}}
    types = {
        f"{which}{name}": each[name]
        for which, each in words.items()
        for name in (*SPEEDS, "VolumeType")
        if name in each
    }
    given.keep(volume.project_id, volume.id, {given.MODIFICATION: types})
    return {"VolumeModification": _shape(volume, row, ec2_id) | types}


@action(
    "DescribeVolumesModifications",
    "volume:get_all",
    takes="VolumeIds Filters MaxResults NextToken",
    passes_over="IncludeManagedResources",
)
def describe_volumes_modifications(call: Call) -> dict[str, Any]:
    """Show the last ModifyVolume request of each volume and its progress."""
    rows, named = volumes_of(call.context).select_related("modification"), bool(call.get("VolumeIds"))
    rows = rows if named else rows.filter(modification__isnull=False)
    shown, token = listed(call, rows, _shaped, _FILTERS)
    return {"VolumesModifications": shown, "NextToken": token}


def _shaped(volumes: list[Volume]) -> list[Found]:
    """Return the modifications of volumes. Raises Ec2Error for a volume without a modification."""
    known = ids.ids_of(names.VOLUME.prefix, [volume.id for volume in volumes])
    never = [known[volume.id] for volume in volumes if _row(volume) is None]
    if never:
        raise Ec2Error("InvalidVolumeModification.NotFound", f"Modification for volume '{never[0]}' does not exist.")
    asked = {key: each.get(given.MODIFICATION, {}) for key, each in given.values_of(known).items()}
    return [
        Found(volume, _shape(volume, row, known[volume.id]) | asked.get(volume.id, {}))
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
        "StatusMessage": "The volume is not what was asked for" if row.failed else None,
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


_FILTERS: Filterable[Found] = Filterable(
    {
        "modification-state": lambda found: found.shape["ModificationState"],
        "original-iops": lambda found: [],
        "original-size": lambda found: found.shape["OriginalSize"],
        "original-volume-type": lambda found: found.shape["OriginalVolumeType"],
        "originalMultiAttachEnabled": lambda found: found.shape["OriginalMultiAttachEnabled"],
        "start-time": lambda found: found.shape["StartTime"],
        "target-iops": lambda found: [],
        "target-size": lambda found: found.shape["TargetSize"],
        "target-volume-type": lambda found: found.shape["TargetVolumeType"],
        "targetMultiAttachEnabled": lambda found: found.shape["TargetMultiAttachEnabled"],
        "volume-id": lambda found: found.shape["VolumeId"],
    }
)
