"""DescribeImages; images by EC2 id, and their representations."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q, QuerySet

from portal.api.ec2.describe import Always, Column, Described, members, nothing, under
from portal.api.ec2.frame import Call, Ec2Error, Shape, names, tags
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.disks.snapshot_images import SNAPSHOT
from provisioning.compute.flavors.sizes import GIB
from provisioning.compute.launch.registered_images import disks_named_by, snapshots_of
from provisioning.compute.launch.request import DiskRequest
from provisioning.images.models import Image
from provisioning.images.selectors import images_of_use
from provisioning.images.selectors.access import shared_with
from provisioning.volumes.models import Snapshot
from provisioning.volumes.states import SnapshotStatus


def image_of(call: Call, ec2_id: str) -> Image:
    """Return an image that the caller's project may use. Raises Ec2Error."""
    return names.one(names.IMAGE, ec2_id, images_of_use(call.project_id, listed=False))


def own_image_of(call: Call, ec2_id: str) -> Image:
    """Return an image of the caller's project. Raises Ec2Error, with the code AuthFailure for an image of another
    project.
    """
    image = image_of(call, ec2_id)
    if image.project_id != call.project_id:
        raise Ec2Error("AuthFailure", f"Not authorized for image:{ec2_id}", status=403)
    return image


def own_images(context: RequestContext) -> QuerySet[Image]:
    project = context.project_id or NOBODY
    return images_of_use(project, listed=False).filter(project_id=project)


ROOT = "/dev/vda"
ARCHITECTURES = {"i386": "i686", "x86_64": "x86_64", "arm64": "aarch64"}
"""EC2's architecture → the architecture of images and hosts."""
_AT_AMAZON = {word: name for name, word in ARCHITECTURES.items()}
_KINDS = {"aki": "kernel", "ari": "ramdisk"}
"""Disk format → image type; the type of all other formats is ``machine``."""
_STATES = {
    Image.Status.ACTIVE: "available",
    Image.Status.DEACTIVATED: "disabled",
    Image.Status.KILLED: "failed",
    Image.Status.DELETED: "deregistered",
}


@dataclass(frozen=True)
class Related:
    """Records that images refer to, fetched with a constant number of queries."""

    ids: names.Ids
    snapshots: Mapping[uuid.UUID, Snapshot] = field(default_factory=dict)
    """Snapshots of the caller's project."""
    tags: Mapping[uuid.UUID, Sequence[Mapping[str, str]]] = field(default_factory=dict)


def related(call: Call, images: Sequence[Image]) -> Related:
    """Fetch the related records of these images; tags, snapshots and instances only for the project's own."""
    own = [image for image in images if image.project_id == call.project_id]
    snapshots = snapshots_of(call.context, own)
    requested = {
        names.IMAGE: [image.id for image in images],
        names.SNAPSHOT: snapshots,
        names.INSTANCE: [_server_of(image) for image in own],
    }
    return Related(
        ids=names.ids_of(requested),
        snapshots=snapshots,
        tags=tags.shapes(names.IMAGE, [image.id for image in own]),
    )


def _server_of(image: Image) -> uuid.UUID | None:
    if image.properties.get("image_type") != SNAPSHOT:
        return None
    return read_id(image.properties.get("instance_uuid"))


def image_shapes(call: Call, images: Sequence[Image]) -> list[Shape]:
    """Return the representations of images."""
    records = related(call, images)
    return [image_shape(call, image, records) for image in images]


def image_shape(call: Call, image: Image, related: Related) -> Shape:
    """Return the representation of an image in DescribeImages."""
    disks, own = disks_named_by(image), image.project_id == call.project_id
    state, reason = state_of(image, disks, related, own=own)
    server, properties = _server_of(image), image.properties
    windows = str(properties.get("os_type", "")).lower() == "windows"
    return {
        "ImageId": related.ids[names.IMAGE][image.id],
        "ImageLocation": f"{image.project_id.hex}/{image.name}",
        "ImageType": _KINDS.get(image.disk_format or "", "machine"),
        "Name": image.name,
        "Description": properties.get("description", ""),
        "OwnerId": image.project_id.hex,
        "Public": image.visibility == Image.Visibility.PUBLIC,
        "State": state,
        "StateReason": reason,
        "Architecture": architecture_of(image),
        "CreationDate": _text_of(image.created_at),
        "Platform": "windows" if windows else None,
        "PlatformDetails": "Windows" if windows else "Linux/UNIX",
        "RootDeviceType": "ebs",
        "RootDeviceName": properties.get("root_device_name") or ROOT,
        "BlockDeviceMappings": mappings(image, disks, related),
        "VirtualizationType": "hvm",
        "ProductCodes": [],
        "SourceInstanceId": related.ids[names.INSTANCE].get(server) if server else None,
        "DeregistrationProtection": protection_of(image),
        "Tags": related.tags.get(image.id, []),
    }


def state_of(
    image: Image, disks: Sequence[DiskRequest], related: Related, *, own: bool
) -> tuple[str, dict[str, str] | None]:
    """Return the state, and the reason if it is ``failed``. An image that consists of snapshots is ``available`` when
    its snapshots are.
    """
    state = _STATES.get(Image.Status(image.status), "pending")
    if state != "available" or not own:
        return state, None
    named = [related.snapshots.get(read_id(disk.source_id) or image.id) for disk in disks if disk.source_id]
    if any(each is None or each.status == SnapshotStatus.ERROR for each in named):
        return "failed", {"Code": "Client.InvalidSnapshot", "Message": "A snapshot of the image failed or was deleted"}
    if any(each is not None and each.status == SnapshotStatus.CREATING for each in named):
        return "pending", None
    return state, None


def root_gb(image: Image) -> int:
    """Return the default size in GiB of a boot volume created from the image."""
    return max(1, image.min_disk, -(-max(image.virtual_size or 0, image.size or 0) // GIB))


def mappings(image: Image, disks: Sequence[DiskRequest], related: Related) -> list[Shape]:
    """Return the volumes that instances of the image get; the root disk is listed even if it is not a volume.

    Ids of other projects' snapshots are omitted.
    """
    result: list[Shape] = []
    if not any(disk.boot_index == 0 for disk in disks):
        root = {"VolumeSize": root_gb(image), "DeleteOnTermination": True, "Encrypted": False}
        result.append({"DeviceName": ROOT, "Ebs": root})
    for disk in disks:
        snapshot = related.snapshots.get(read_id(disk.source_id) or uuid.UUID(int=0))
        volume = {
            "SnapshotId": related.ids[names.SNAPSHOT][snapshot.id] if snapshot else None,
            "VolumeSize": disk.size or (snapshot.size_gb if snapshot else None),
            "VolumeType": disk.volume_type or None,
            "DeleteOnTermination": disk.delete_on_termination,
            "Encrypted": bool(snapshot.volume.encryption_key) if snapshot else None,
        }
        name = disk.device_name or (ROOT if disk.boot_index == 0 else "")
        result.append({"DeviceName": name, "Ebs": volume})
    return result


def architecture_of(image: Image) -> str:
    word = str(image.properties.get("hw_architecture") or image.properties.get("architecture") or "x86_64")
    return _AT_AMAZON.get(word, word)


def protection_of(image: Image) -> str:
    return "enabled" if image.protected else "disabled"


def _text_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _rows(call: Call) -> QuerySet[Image]:
    """Return the images that the project may use.

    Hidden and disabled images, and community images of other projects, are included only if their ids are specified.
    """
    specified = call.get("ImageIds", [])
    rows = images_of_use(call.project_id, listed=not specified)
    if not specified and not call.get("IncludeDisabled", False):
        rows = rows.exclude(status=Image.Status.DEACTIVATED)
    return rows


def _of_users(call: Call) -> Q | None:
    """Return a condition of ``Owners`` and ``ExecutableUsers``."""
    return _owned(call) & _executable(call) if call.get("Owners") or call.get("ExecutableUsers") else None


def _owned(call: Call) -> Q:
    """Match images of the requested owners. The owner ``amazon`` has no images."""
    owners = set(call.get("Owners", []))
    projects = {key for each in owners if (key := read_id(each)) is not None}
    if names.is_named(call, owners):
        projects.add(call.project_id)
    return Q(project_id__in=projects) if owners else Q()


def _executable(call: Call) -> Q:
    """Match images with the requested launch permissions: public images, images shared with the caller's project, and
    images that the caller's project shares with another project.
    """
    users = call.get("ExecutableUsers", [])
    if not users:
        return Q()
    rows, result = images_of_use(call.project_id, listed=False), Q(pk__in=[])
    if "all" in users:
        result |= Q(visibility=Image.Visibility.PUBLIC)
    if names.is_named(call, users):
        result |= Q(pk__in=rows.filter(shared_with(call.context)).values("pk"))
    others = [key for each in users if (key := read_id(each)) is not None and key != call.project_id]
    if others:
        own = rows.filter(project_id=call.project_id, visibility=Image.Visibility.SHARED)
        result |= Q(pk__in=own.filter(members__project_id__in=others).values("pk"))
    return result


DESCRIBE_IMAGES = Described(
    action="DescribeImages",
    rule="get_images",
    member="Images",
    kind=names.IMAGE,
    ids="ImageIds",
    ids_exclude_pages=True,
    takes="Owners ExecutableUsers IncludeDisabled",
    ignored="IncludeDeprecated",
    rows=_rows,
    among=_of_users,
    shape=image_shapes,
    filters={
        **members(
            "Architecture CreationDate Description ImageType Platform RootDeviceName RootDeviceType "
            "SourceInstanceId State VirtualizationType"
        ),
        "block-device-mapping.device-name": "BlockDeviceMappings[].DeviceName",
        **under(
            "BlockDeviceMappings[].Ebs",
            members("DeleteOnTermination Encrypted SnapshotId VolumeSize VolumeType"),
            prefix="block-device-mapping.",
        ),
        "ena-support": Always(value=False),
        "free-tier-eligible": Always(value=False),
        "image-allowed": Always(value=True),
        "image-id": Column("ImageId", "pk", names.IMAGE),
        "is-public": "Public",
        "manifest-location": "ImageLocation",
        "name": Column("Name", "name"),
        "owner-id": Column("OwnerId", "project_id"),
        "state-reason-code": "StateReason.Code",
        "state-reason-message": "StateReason.Message",
        **nothing(
            "boot-mode hypervisor image-watermark.source-image-id "
            "instance-type-specification.supported-instance-type kernel-id owner-alias product-code "
            "product-code.type ramdisk-id source-image-id source-image-region sriov-net-support"
        ),
    },
)
