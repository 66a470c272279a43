"""Create, delete and describe volumes."""

from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.volumes import shapes
from portal.api.ec2.actions.volumes.shapes import snapshot_of, volume_of, volumes_of
from portal.api.ec2.describe import NOTHING, Always, Column, Described, Narrowed, members, under
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from portal.api.ec2.volume_types import of_amazon, store_requested, type_asked
from provisioning.common.errors import InvalidInputError
from provisioning.ec2 import ids
from provisioning.volumes import services
from provisioning.volumes.models import Volume

KIND = names.VOLUME


@action(
    "CreateVolume",
    "volume:create",
    takes="AvailabilityZone AvailabilityZoneId Size SnapshotId VolumeType Encrypted MultiAttachEnabled ClientToken "
    "TagSpecifications Iops Throughput",
    missing="InvalidSnapshot.NotFound",
    over_quota={"per_volume_gigabytes": "InvalidParameterValue"},
)
def create_volume(call: Call) -> dict[str, Any]:
    """Create a volume, empty or from a snapshot; its ``Name`` tag also becomes its name."""
    specified = tags.specified(call, KIND)
    size, snapshot = call.get("Size"), call.get("SnapshotId")
    if size is None and not snapshot:
        raise Ec2Error("MissingParameter", "The request must contain the parameter size/snapshot")
    request = services.VolumeRequest(
        size_gb=size,
        name=specified.get(KIND.resource_type, {}).get("Name", ""),
        volume_type=(found_type := type_asked(call.context, call.get("VolumeType"))),
        availability_zone=_zone(call),
        snapshot_id=str(snapshot_of(call, snapshot).id) if snapshot else "",
    )
    try:
        made = services.create_volume(call.context, request)
    except InvalidInputError as error:
        if error.field != "availability_zone":
            raise
        raise Ec2Error("InvalidZone.NotFound", error.message) from error
    _check_promised(call, made)
    tags.write(call, KIND, [made.id], specified)
    store_requested(made.project_id, made.id, of_amazon(call.arguments, found_type))
    volume = volumes_of(call.context).get(id=made.id)
    return shapes.volume_shape(volume, shapes.related([volume]))


def _zone(call: Call) -> str:
    """Return the availability zone, whose name and id are equal. Raises Ec2Error."""
    named = {name: call.get(name) for name in ("AvailabilityZone", "AvailabilityZoneId") if call.get(name)}
    if len(named) > 1:
        raise errors.combination("Either AvailabilityZone or AvailabilityZoneId must be specified, but not both")
    if not named:
        raise errors.missing_parameter("AvailabilityZone")
    return str(next(iter(named.values())))


def _check_promised(call: Call, made: Volume) -> None:
    """Raise Ec2Error if the request requires properties that the volume type does not have; the volume is then not
    created.
    """
    if call.get("Encrypted", False) and not made.encryption_key:
        raise errors.unsupported("Whether a volume is encrypted follows from its type: name a VolumeType that is")
    if call.get("MultiAttachEnabled", False) and not made.multiattach:
        raise errors.unsupported("Whether several instances may have a volume follows from its type: name one")


@action("DeleteVolume", "volume:delete", takes="VolumeId", missing=KIND.missing)
def delete_volume(call: Call) -> dict[str, Any]:
    """Delete a volume that is not attached and has no snapshots. Snapshots that are being deleted do not count."""
    ec2_id = call.arguments["VolumeId"]
    volume = volume_of(call, ec2_id)
    if volume.attachments.all():
        raise Ec2Error("VolumeInUse", f"Volume {ec2_id} is currently attached")
    services.Delete.begin(call.context, volume.id, services.VolumeDeletion(after_snapshots=True))
    return {}


DESCRIBE_VOLUMES = Described(
    action="DescribeVolumes",
    rule="volume:get_all",
    member="Volumes",
    kind=names.VOLUME,
    ids="VolumeIds",
    ids_exclude_pages=True,
    ignored="IncludeManagedResources",
    rows=lambda call: volumes_of(call.context),
    shape=lambda call, volumes: shapes.volume_shapes(volumes),
    filters={
        **under(
            "Attachments[]",
            {
                **members("AttachTime DeleteOnTermination Device"),
                "instance-id": Column("InstanceId", "attachments__instance_id", names.INSTANCE),
                "status": "State",
            },
            prefix="attachment.",
        ),
        "availability-zone": Column("AvailabilityZone", "availability_zone"),
        "availability-zone-id": Column("AvailabilityZoneId", "availability_zone"),
        **members("CreateTime Encrypted MultiAttachEnabled VolumeType"),
        "fast-restored": Always(value=False),
        "operator.managed": Always(value=False),
        "operator.principal": NOTHING,
        "size": Column("Size", "size_gb"),
        "snapshot-id": Column("SnapshotId", "source_snapshot_id", names.SNAPSHOT),
        "status": Narrowed("State", shapes.condition),
        "volume-id": Column("VolumeId", "pk", names.VOLUME),
    },
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
        raise errors.unsupported(
            "A guest whose volume was not reachable resumes automatically when it is reachable again"
        )
    return {}
