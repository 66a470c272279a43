"""Create, delete and describe volumes.

Also volumes, snapshots and instances by EC2 id, EC2's states of them (fewer than the Block Storage API's), and shapes.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from portal.api.ec2.describe import NOTHING, Always, Column, Described, Narrowed, members, under
from portal.api.ec2.frame import Arguments, Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors as compute
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.ec2 import given
from provisioning.volumes import services
from provisioning.volumes.models import Attachment, Snapshot, Volume
from provisioning.volumes.selectors.access import visible_snapshots, visible_volumes
from provisioning.volumes.selectors.pools import servings
from provisioning.volumes.states import AttachStatus, SnapshotStatus, VolumeStatus


def volumes_of(context: RequestContext) -> QuerySet[Volume]:
    """Return the project's volumes with attachments and pools prefetched."""
    return visible_volumes(context).prefetch_related("attachments", servings("pool__"))


def volume_of(call: Call, ec2_id: str) -> Volume:
    """Return one volume. Raises Ec2Error."""
    return names.one(names.VOLUME, ec2_id, volumes_of(call.context))


def snapshot_of(call: Call, ec2_id: str) -> Snapshot:
    """Return one snapshot. Raises Ec2Error."""
    return names.one(names.SNAPSHOT, ec2_id, visible_snapshots(call.context))


def instance_of(call: Call, ec2_id: str) -> Instance:
    """Return one existing instance. Raises Ec2Error."""
    key = names.resource(names.INSTANCE, ec2_id)
    try:
        instance = compute.instance_for(call.context, key)
    except NotFoundError as error:
        raise names.not_found(names.INSTANCE, [ec2_id]) from error
    if instance.project_id != call.project_id:
        raise names.not_found(names.INSTANCE, [ec2_id])
    return instance


CREATING, AVAILABLE, IN_USE, DELETING, ERROR = "creating", "available", "in-use", "deleting", "error"
_OWN = {
    VolumeStatus.DELETING: DELETING,
    VolumeStatus.ERROR: ERROR,
    VolumeStatus.ERROR_DELETING: ERROR,
    VolumeStatus.ERROR_BACKING_UP: ERROR,
    VolumeStatus.ERROR_RESTORING: ERROR,
    VolumeStatus.ERROR_EXTENDING: ERROR,
}
_BEING_WRITTEN = frozenset(
    {VolumeStatus.CREATING, VolumeStatus.DOWNLOADING, VolumeStatus.RESTORING_BACKUP, VolumeStatus.REVERTING}
)
_OF_ATTACHMENT = {
    AttachStatus.RESERVED: "attaching",
    AttachStatus.ATTACHING: "attaching",
    AttachStatus.ERROR_ATTACHING: "attaching",
    AttachStatus.ATTACHED: "attached",
    AttachStatus.DETACHING: "detaching",
    AttachStatus.ERROR_DETACHING: "busy",
}
_OF_SNAPSHOT = {
    SnapshotStatus.CREATING: "pending",
    SnapshotStatus.DELETING: "pending",  # EC2 has no state for it; clients that wait for the deletion keep waiting
    SnapshotStatus.UNMANAGING: "pending",
    SnapshotStatus.ERROR: "error",
    SnapshotStatus.ERROR_DELETING: "error",
}


def of_volume(volume: Volume) -> str:
    """Return the state of a volume. During an operation, an attached volume is ``in-use``, a volume to which data is
    being written is ``creating``, and any other volume is ``available``.
    """
    status = VolumeStatus(volume.status)
    if status in _OWN:
        return _OWN[status]
    if volume.attachments.all():
        return IN_USE
    return CREATING if status in _BEING_WRITTEN else AVAILABLE


def condition(states: Sequence[str]) -> Q:
    """Return a database condition that all volumes in one of these states fulfil."""
    result = Q(pk__in=[])
    for state in states:
        if state == CREATING:
            result |= Q(status__in=_BEING_WRITTEN)
        elif state in {AVAILABLE, IN_USE}:
            result |= ~Q(status__in=_OWN)
        else:
            result |= Q(status__in=[status for status, name in _OWN.items() if name == state])
    return result


def of_attachment(attachment: Attachment) -> str:
    return _OF_ATTACHMENT[AttachStatus(attachment.status)]


def of_snapshot(snapshot: Snapshot) -> str:
    return _OF_SNAPSHOT.get(SnapshotStatus(snapshot.status), "completed")


def progress_of(snapshot: Snapshot) -> str:
    return f"{100 if of_snapshot(snapshot) == 'completed' else snapshot.progress}%"


NO_TYPE = "standard"
"""Type name shown for a volume without a volume type."""


@dataclass(frozen=True)
class Related:
    """Records that volumes refer to, fetched with a constant number of queries."""

    ids: names.Ids
    devices: Mapping[uuid.UUID, BlockDevice] = field(default_factory=dict)
    """Attachment → the block device of its server."""
    tags: Mapping[uuid.UUID, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    given: Mapping[uuid.UUID, Arguments] = field(default_factory=dict)
    """Volume or disk → values from client requests (``ec2.given``)."""


def related(volumes: Sequence[Volume]) -> Related:
    """Fetch the related records of these volumes."""
    keys = [volume.id for volume in volumes]
    origins = {key for volume in volumes for key in (volume.id, volume.source_volume_id) if key is not None}
    servers = {each.instance_id for volume in volumes for each in volume.attachments.all() if each.instance_id}
    shown = volumes_shown(servers) if servers else {}
    devices = {each.attachment_id: each for every in shown.values() for each in every if each.attachment_id}
    return Related(
        ids=names.ids_of(
            {
                names.VOLUME: origins,
                names.SNAPSHOT: [volume.source_snapshot_id for volume in volumes],
                names.INSTANCE: servers,
            }
        ),
        devices=devices,
        tags=tags.shapes(names.VOLUME, keys),
        given=given.values_of([*keys, *(device.id for device in devices.values())]),
    )


def volume_shapes(volumes: Sequence[Volume]) -> list[Shape]:
    """Return the representations of volumes."""
    records = related(volumes)
    return [volume_shape(volume, records) for volume in volumes]


def volume_shape(volume: Volume, related: Related) -> Shape:
    """Return the representation of a volume in DescribeVolumes and CreateVolume."""
    return {
        "VolumeId": related.ids[names.VOLUME][volume.id],
        "OwnerId": volume.project_id.hex,
        "Size": volume.size_gb,
        "SnapshotId": related.ids[names.SNAPSHOT][volume.source_snapshot_id] if volume.source_snapshot_id else "",
        "SourceVolumeId": related.ids[names.VOLUME][volume.source_volume_id] if volume.source_volume_id else None,
        "AvailabilityZone": volume.availability_zone,
        "AvailabilityZoneId": volume.availability_zone,
        "State": of_volume(volume),
        "CreateTime": volume.created_at,
        "Attachments": [attachment_shape(each, related) for each in volume.attachments.all()],
        "Encrypted": bool(volume.encryption_key),
        **_type(volume, related),
        "MultiAttachEnabled": volume.multiattach,
        "Tags": related.tags[volume.id],
    }


def _requested_device(device: BlockDevice | None, related: Related) -> str | None:
    return related.given.get(device.id, {}).get(given.DEVICE) if device is not None else None


def _type(volume: Volume, related: Related) -> Shape:
    """Return the AWS type in the request if this cloud has no type of that name, otherwise the volume's own type."""
    own = {"VolumeType": volume.volume_type.name if volume.volume_type else NO_TYPE}
    requested: Shape = related.given.get(volume.id, {}).get(given.VOLUME_TYPE, {})
    return own | requested


def attachment_shape(attachment: Attachment, related: Related) -> Shape:
    """Return the representation of an attachment; an attachment outside the cloud has no instance."""
    device = related.devices.get(attachment.id)
    return {
        "VolumeId": related.ids[names.VOLUME][attachment.volume_id],
        "InstanceId": related.ids[names.INSTANCE][attachment.instance_id] if attachment.instance_id else None,
        "Device": _requested_device(device, related) or attachment.mountpoint,
        "State": of_attachment(attachment),
        "AttachTime": attachment.attached_at or attachment.created_at,
        "DeleteOnTermination": device is not None and device.delete_on_termination,
    }


def snapshot_shapes(snapshots: Sequence[Snapshot]) -> list[Shape]:
    """Return the representations of snapshots."""
    keys = [snapshot.id for snapshot in snapshots]
    ec2_ids = names.ids_of({names.SNAPSHOT: keys, names.VOLUME: [snapshot.volume_id for snapshot in snapshots]})
    tagged = tags.shapes(names.SNAPSHOT, keys)
    return [
        {
            "SnapshotId": ec2_ids[names.SNAPSHOT][snapshot.id],
            "VolumeId": ec2_ids[names.VOLUME][snapshot.volume_id],
            "OwnerId": snapshot.project_id.hex,
            "State": of_snapshot(snapshot),
            "StateMessage": "The snapshot is being deleted" if snapshot.status == "deleting" else None,
            "StartTime": snapshot.created_at,
            "Progress": progress_of(snapshot),
            "VolumeSize": snapshot.size_gb,
            "Description": snapshot.description,
            "Encrypted": bool(snapshot.volume.encryption_key),
            "StorageTier": "standard",
            "Tags": tagged[snapshot.id],
        }
        for snapshot in snapshots
    ]


KIND = names.VOLUME


@action(
    "CreateVolume",
    services.Create.rule,
    takes="AvailabilityZone AvailabilityZoneId Size SnapshotId VolumeType Encrypted MultiAttachEnabled ClientToken "
    "TagSpecifications Iops Throughput",
    missing="InvalidSnapshot.NotFound",
    over_quota={"per_volume_gigabytes": "InvalidParameterValue"},
)
def create_volume(call: Call) -> Shape:
    """Create a volume, empty or from a snapshot; its ``Name`` tag also becomes its name."""
    specified = tags.specified(call, KIND)
    size, snapshot = call.get("Size"), call.get("SnapshotId")
    if size is None and not snapshot:
        raise Ec2Error("MissingParameter", "The request must contain the parameter size/snapshot")
    request = services.VolumeRequest(
        size_gb=size,
        name=specified.get(KIND.resource_type, {}).get("Name", ""),
        volume_type=(volume_type := names.requested_type(call.context, call.get("VolumeType"))),
        availability_zone=_zone(call),
        snapshot_id=str(snapshot_of(call, snapshot).id) if snapshot else "",
    )
    try:
        made = services.Create.begin(call.context, request)
    except InvalidInputError as error:
        if error.field != "availability_zone":
            raise
        raise Ec2Error("InvalidZone.NotFound", error.message) from error
    _check_promised(call, made)
    tags.write(call, KIND, [made.id], specified)
    names.store_requested(made.project_id, made.id, names.of_amazon(call.arguments, volume_type))
    volume = volumes_of(call.context).get(id=made.id)
    return volume_shape(volume, related([volume]))


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
        raise errors.unsupported(
            "The volume type determines whether a volume is encrypted: specify an encrypted VolumeType"
        )
    if call.get("MultiAttachEnabled", False) and not made.multiattach:
        raise errors.unsupported(
            "The volume type determines whether several instances may attach a volume: specify a type that allows it"
        )


@action("DeleteVolume", "volume:delete", takes="VolumeId", missing=KIND.missing)
def delete_volume(call: Call) -> Shape:
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
    shape=lambda call, volumes: volume_shapes(volumes),
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
        "status": Narrowed("State", condition),
        "volume-id": Column("VolumeId", "pk", names.VOLUME),
    },
)


@action("DescribeVolumeAttribute", "volume:get", takes="VolumeId Attribute")
def describe_volume_attribute(call: Call) -> Shape:
    """Show an attribute. I/O always resumes automatically in this cloud, and volumes have no product codes."""
    volume = volume_of(call, call.arguments["VolumeId"])
    value: Shape = {"ProductCodes": []}
    if call.arguments["Attribute"] == "autoEnableIO":
        value = {"AutoEnableIO": {"Value": True}}
    return {"VolumeId": names.VOLUME.id_of(volume.id), **value}


@action("ModifyVolumeAttribute", "volume:update", takes="VolumeId AutoEnableIO")
def modify_volume_attribute(call: Call) -> Shape:
    """Accept ``AutoEnableIO`` with the value true, the only supported one."""
    volume_of(call, call.arguments["VolumeId"])
    value = call.get("AutoEnableIO", {}).get("Value")
    if value is None:
        raise errors.missing_parameter("AutoEnableIO.Value")
    if not value:
        raise errors.unsupported(
            "A guest whose volume was not reachable resumes automatically when it is reachable again"
        )
    return {}
