"""DescribeImages."""

from django.db.models import Q, QuerySet

from portal.api.ec2 import names, owned
from portal.api.ec2.actions.images import shapes
from portal.api.ec2.describe import Always, Column, Described, members, nothing, under
from portal.api.ec2.registry import Call
from provisioning.common.values.ids import read_id
from provisioning.images.models import Image
from provisioning.images.selectors import images_of_use
from provisioning.images.selectors.access import shared_with


def _rows(call: Call) -> QuerySet[Image]:
    """Return the images that the project may use.

    Hidden and disabled images, and community images of other projects, are included only if their ids are specified.
    """
    specified = call.get("ImageIds", [])
    rows = images_of_use(call.project_id, listed=not specified)
    if not specified and not call.get("IncludeDisabled", False):
        rows = rows.exclude(status=Image.Status.DEACTIVATED)
    return rows


def _asked(call: Call) -> Q | None:
    """Return a condition of ``Owners`` and ``ExecutableUsers``."""
    return _owned(call) & _executable(call) if call.get("Owners") or call.get("ExecutableUsers") else None


def _owned(call: Call) -> Q:
    """Match images of the requested owners. The owner ``amazon`` has no images."""
    owners = set(call.get("Owners", []))
    projects = {key for each in owners if (key := read_id(each)) is not None}
    if owned.is_named(call, owners):
        projects.add(call.project_id)
    return Q(project_id__in=projects) if owners else Q()


def _executable(call: Call) -> Q:
    """Match images with the requested launch permissions: public images, images shared with the caller's project, and
    images that the caller's project shares with another project.
    """
    users = call.get("ExecutableUsers", [])
    if not users:
        return Q()
    known, found = images_of_use(call.project_id, listed=False), Q(pk__in=[])
    if "all" in users:
        found |= Q(visibility=Image.Visibility.PUBLIC)
    if owned.is_named(call, users):
        found |= Q(pk__in=known.filter(shared_with(call.context)).values("pk"))
    others = [key for each in users if (key := read_id(each)) is not None and key != call.project_id]
    if others:
        own = known.filter(project_id=call.project_id, visibility=Image.Visibility.SHARED)
        found |= Q(pk__in=own.filter(members__project_id__in=others).values("pk"))
    return found


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
    among=_asked,
    shape=shapes.image_shapes,
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
