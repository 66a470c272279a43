"""DescribeVolumes, DescribeVolumeAttribute and ModifyVolumeAttribute."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet

from portal.api.ec2 import names, paging
from portal.api.ec2.actions.volumes import shapes
from portal.api.ec2.actions.volumes.found import volume_of, volumes_of
from portal.api.ec2.filters import Filterable
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.volumes.models import Volume


class Found(NamedTuple):
    """A volume and its representation."""

    volume: Volume
    shape: dict[str, Any]


def listed(
    call: Call,
    rows: QuerySet[Volume],
    shape: Callable[[list[Volume]], Sequence[Found | None]],
    filters: Filterable[Found],
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the representations of the requested volumes and the token of the next page. Raises Ec2Error."""
    given = call.get("VolumeIds", [])
    if given and call.get("MaxResults"):
        raise errors.combination("The parameter VolumeIds cannot be used with the parameter MaxResults")
    shown, token = paging.described(call, names.VOLUME, given, rows, shape, filters)
    return [each.shape for each in shown], token


@action(
    "DescribeVolumes",
    "volume:get_all",
    takes="VolumeIds Filters MaxResults NextToken",
    passes_over="IncludeManagedResources",
)
def describe_volumes(call: Call) -> dict[str, Any]:
    """List the project's volumes."""
    shown, token = listed(call, volumes_of(call.context), _shaped, _FILTERS)
    return {"Volumes": shown, "NextToken": token}


def _shaped(volumes: list[Volume]) -> list[Found]:
    related = shapes.related(volumes)
    return [Found(volume, shapes.volume_shape(volume, related)) for volume in volumes]


def _attached(name: str) -> Any:
    return lambda found: [each[name] for each in found.shape["Attachments"]]


_FILTERS: Filterable[Found] = Filterable(
    {
        "attachment.attach-time": _attached("AttachTime"),
        "attachment.delete-on-termination": _attached("DeleteOnTermination"),
        "attachment.device": _attached("Device"),
        "attachment.instance-id": _attached("InstanceId"),
        "attachment.status": _attached("State"),
        "availability-zone": lambda found: found.shape["AvailabilityZone"],
        "availability-zone-id": lambda found: found.shape["AvailabilityZoneId"],
        "create-time": lambda found: found.shape["CreateTime"],
        "encrypted": lambda found: found.shape["Encrypted"],
        "fast-restored": lambda found: False,
        "multi-attach-enabled": lambda found: found.shape["MultiAttachEnabled"],
        "operator.managed": lambda found: False,
        "operator.principal": lambda found: [],
        "size": lambda found: found.shape["Size"],
        "snapshot-id": lambda found: found.shape["SnapshotId"] or None,
        "status": lambda found: found.shape["State"],
        "volume-id": lambda found: found.shape["VolumeId"],
        "volume-type": lambda found: found.shape["VolumeType"],
    },
    tags=lambda found: {tag["Key"]: tag["Value"] for tag in found.shape["Tags"]},
)


@action("DescribeVolumeAttribute", "volume:get", takes="VolumeId Attribute")
def describe_volume_attribute(call: Call) -> dict[str, Any]:
    """Show an attribute. I/O always resumes automatically in this cloud, and volumes have no product codes."""
    volume = volume_of(call, call.arguments["VolumeId"])
    value: dict[str, Any] = {"ProductCodes": []}
    if call.arguments["Attribute"] == "autoEnableIO":
        value = {"AutoEnableIO": {"Value": True}}
    return {"VolumeId": ids.id_of(names.VOLUME.prefix, volume.id), **value}


@action("ModifyVolumeAttribute", "volume:update", takes="VolumeId AutoEnableIO")
def modify_volume_attribute(call: Call) -> dict[str, Any]:
    """Accept ``AutoEnableIO`` with the value true, the only supported one."""
    volume_of(call, call.arguments["VolumeId"])
    wanted_value = call.get("AutoEnableIO", {}).get("Value")
    if wanted_value is None:
        raise errors.missing_parameter("AutoEnableIO.Value")
    if not wanted_value:
        raise errors.unsupported("A guest whose volume could not be reached resumes automatically when it can be again")
    return {}
