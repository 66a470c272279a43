"""CreateSnapshot, DeleteSnapshot, DescribeSnapshots and DescribeSnapshotAttribute."""

from django.db.models import Q

from portal.api.ec2.actions.volumes.changes import snapshot_of, snapshot_shapes, volume_of
from portal.api.ec2.describe import NOTHING, Column, Described, members
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, names, tags
from provisioning.compute.launch.registered_images import images_naming
from provisioning.volumes import services
from provisioning.volumes.selectors.access import visible_snapshots
from provisioning.volumes.states import SnapshotStatus

KIND = names.SNAPSHOT


@action(
    "CreateSnapshot",
    services.CreateSnapshot.rule,
    takes="VolumeId Description TagSpecifications",
    missing=names.VOLUME.missing,
)
def create_snapshot(call: Call) -> Shape:
    """Create a snapshot of a volume, also while it is attached; its ``Name`` tag also becomes its name."""
    specified = tags.specified(call, KIND)
    volume = volume_of(call, call.arguments["VolumeId"])
    name = specified.get(KIND.resource_type, {}).get("Name", "")
    request = services.SnapshotRequest(name, call.get("Description", ""), force=True)
    made = services.CreateSnapshot.begin(call.context, volume.id, request)
    tags.write(call, KIND, [made.id], specified)
    return snapshot_shapes([made])[0]


@action("DeleteSnapshot", services.DeleteSnapshot.rule, takes="SnapshotId", missing=KIND.missing)
def delete_snapshot(call: Call) -> Shape:
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
        used = f"The snapshot {call.arguments['SnapshotId']} is currently in use by {names.IMAGE.id_of(naming[0].id)}"
        raise Ec2Error("InvalidSnapshot.InUse", used)
    services.DeleteSnapshot.begin(call.context, snapshot.id, services.Deletion())
    return {}


def _of_others(call: Call) -> Q | None:
    """Return a condition that no snapshot fulfils if another project is named: snapshots are not shared."""
    specified = [requested for name in ("OwnerIds", "RestorableByUserIds") if (requested := call.get(name, []))]
    return None if all(names.is_named(call, requested) for requested in specified) else Q(pk__in=[])


DESCRIBE_SNAPSHOTS = Described(
    action="DescribeSnapshots",
    rule="volume:get_all_snapshots",
    member="Snapshots",
    kind=KIND,
    ids="SnapshotIds",
    ids_exclude_pages=True,
    takes="OwnerIds RestorableByUserIds",
    rows=lambda call: visible_snapshots(call.context),
    among=_of_others,
    shape=lambda call, snapshots: snapshot_shapes(snapshots),
    filters={
        "description": Column("Description", "description"),
        **members("Encrypted Progress StartTime StorageTier"),
        "owner-alias": NOTHING,
        "owner-id": Column("OwnerId", "project_id"),
        "snapshot-id": Column("SnapshotId", "pk", KIND),
        "status": "State",
        "transfer-type": NOTHING,
        "volume-id": Column("VolumeId", "volume_id", names.VOLUME),
        "volume-size": Column("VolumeSize", "size_gb"),
    },
)


@action("DescribeSnapshotAttribute", "volume:get_snapshot", takes="SnapshotId Attribute")
def describe_snapshot_attribute(call: Call) -> Shape:
    """Show an attribute: snapshots are not shared between projects and have no product codes."""
    snapshot = snapshot_of(call, call.arguments["SnapshotId"])
    value = "ProductCodes" if call.arguments["Attribute"] == "productCodes" else "CreateVolumePermissions"
    return {"SnapshotId": KIND.id_of(snapshot.id), value: []}
