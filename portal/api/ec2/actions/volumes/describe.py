"""DescribeVolumes, DescribeVolumeAttribute and ModifyVolumeAttribute."""

from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.volumes import shapes, states
from portal.api.ec2.actions.volumes.found import volume_of, volumes_of
from portal.api.ec2.describe import NOTHING, Always, Column, Described, Narrowed, describe, members, under
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids

describe(
    Described(
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
            "status": Narrowed("State", states.condition),
            "volume-id": Column("VolumeId", "pk", names.VOLUME),
        },
    )
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
