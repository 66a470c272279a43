"""CreateSnapshot, DeleteSnapshot, DescribeSnapshots and DescribeSnapshotAttribute."""

from typing import Any, NamedTuple

from portal.api.ec2 import names, owned, paging, tags
from portal.api.ec2.actions.volumes import shapes
from portal.api.ec2.actions.volumes.found import snapshot_of, volume_of
from portal.api.ec2.filters import Filterable
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.compute.launch.registered_images import images_naming
from provisioning.ec2 import ids
from provisioning.volumes import services
from provisioning.volumes.models import Snapshot
from provisioning.volumes.selectors.access import visible_snapshots
from provisioning.volumes.states import SnapshotStatus

KIND = names.SNAPSHOT


class Found(NamedTuple):
    """A snapshot and its representation."""

    snapshot: Snapshot
    shape: dict[str, Any]


@action(
    "CreateSnapshot",
    "volume:create_snapshot",
    takes="VolumeId Description TagSpecifications",
    missing=names.VOLUME.missing,
)
def create_snapshot(call: Call) -> dict[str, Any]:
    """Create a snapshot of a volume, also while it is attached; its ``Name`` tag also becomes its name."""
    given = tags.specified(call, KIND)
    volume = volume_of(call, call.arguments["VolumeId"])
    name = given.get(KIND.resource_type, {}).get("Name", "")
    made = services.create_snapshot(
        call.context, volume.id, name=name, description=call.get("Description", ""), force=True
    )
    tags.write(call, KIND, [made.id], given)
    return shapes.snapshot_shapes([made])[0]


@action("DeleteSnapshot", "volume:delete_snapshot", takes="SnapshotId", missing=KIND.missing)
def delete_snapshot(call: Call) -> dict[str, Any]:
    """Delete a snapshot; volumes created from it are kept."""
    snapshot = snapshot_of(call, call.arguments["SnapshotId"])
    if snapshot.group_snapshot_id is not None:
        why = f"The snapshot {call.arguments['SnapshotId']} belongs to a group snapshot of the Block Storage API"
        raise Ec2Error("InvalidSnapshot.InUse", why)
    if snapshot.status in (SnapshotStatus.BACKING_UP, SnapshotStatus.RESTORING):
        why = f"The snapshot {call.arguments['SnapshotId']} is being copied or restored"
        raise Ec2Error("InvalidSnapshot.InUse", why)
    naming = images_naming(call.project_id, snapshot.id)
    if naming:
        used = f"The snapshot {call.arguments['SnapshotId']} is currently in use by {ids.id_of('ami', naming[0].id)}"
        raise Ec2Error("InvalidSnapshot.InUse", used)
    services.delete_snapshot(call.context, snapshot.id)
    return {}


@action(
    "DescribeSnapshots",
    "volume:get_all_snapshots",
    takes="SnapshotIds OwnerIds RestorableByUserIds Filters MaxResults NextToken",
)
def describe_snapshots(call: Call) -> dict[str, Any]:
    """List the project's snapshots; snapshots are not shared between projects."""
    given = call.get("SnapshotIds", [])
    if given and call.get("MaxResults"):
        raise errors.combination("The parameter SnapshotIds cannot be used with the parameter MaxResults")
    asked = [wanted for name in ("OwnerIds", "RestorableByUserIds") if (wanted := call.get(name, []))]
    mine = all(owned.is_named(call, wanted) for wanted in asked)

    def shaped(snapshots: list[Snapshot]) -> list[Found | None]:
        found = zip(snapshots, shapes.snapshot_shapes(snapshots), strict=True)
        return [Found(*each) if mine else None for each in found]

    rows = visible_snapshots(call.context)
    shown, token = paging.described(call, KIND, given, rows if mine or given else rows.none(), shaped, _FILTERS)
    return {"Snapshots": [each.shape for each in shown], "NextToken": token}


_FILTERS: Filterable[Found] = Filterable(
    {
        "description": lambda found: found.shape["Description"],
        "encrypted": lambda found: found.shape["Encrypted"],
        "owner-alias": lambda found: [],
        "owner-id": lambda found: found.shape["OwnerId"],
        "progress": lambda found: found.shape["Progress"],
        "snapshot-id": lambda found: found.shape["SnapshotId"],
        "start-time": lambda found: found.shape["StartTime"],
        "status": lambda found: found.shape["State"],
        "storage-tier": lambda found: found.shape["StorageTier"],
        "transfer-type": lambda found: [],
        "volume-id": lambda found: found.shape["VolumeId"],
        "volume-size": lambda found: found.shape["VolumeSize"],
    },
    tags=lambda found: {tag["Key"]: tag["Value"] for tag in found.shape["Tags"]},
)


@action("DescribeSnapshotAttribute", "volume:get_snapshot", takes="SnapshotId Attribute")
def describe_snapshot_attribute(call: Call) -> dict[str, Any]:
    """Show an attribute: snapshots are not shared between projects and have no product codes."""
    snapshot = snapshot_of(call, call.arguments["SnapshotId"])
    value = "ProductCodes" if call.arguments["Attribute"] == "productCodes" else "CreateVolumePermissions"
    return {"SnapshotId": ids.id_of(KIND.prefix, snapshot.id), value: []}
