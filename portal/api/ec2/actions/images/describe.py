"""DescribeImages."""

from typing import Any, NamedTuple

from portal.api.ec2 import names, owned, paging
from portal.api.ec2.actions.images import shapes
from portal.api.ec2.filters import Filterable, Reader
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.common.ids import read_id
from provisioning.images.models import Image
from provisioning.images.selectors import images_of_use
from provisioning.images.selectors.access import shared_with


class Found(NamedTuple):
    """An image and its representation."""

    image: Image
    shape: dict[str, Any]


@action(
    "DescribeImages",
    "get_images",
    takes="ImageIds Owners ExecutableUsers Filters IncludeDisabled MaxResults NextToken",
    passes_over="IncludeDeprecated",
)
def describe_images(call: Call) -> dict[str, Any]:
    """List the images that the project may use.

    Hidden and disabled images, and community images of other projects, are included only if their ids are specified.
    """
    given = call.get("ImageIds", [])
    if given and call.get("MaxResults"):
        raise errors.combination("The parameter ImageIds cannot be used with the parameter MaxResults")
    rows = images_of_use(call.project_id, listed=not given)
    if not given and not call.get("IncludeDisabled", False):
        rows = rows.exclude(status=Image.Status.DEACTIVATED)

    def shaped(images: list[Image]) -> list[Found | None]:
        shown = {image.id for image in _executable(call, _owned(call, images))}
        related = shapes.related(call, [image for image in images if image.id in shown])
        return [
            Found(image, shapes.image_shape(call, image, related)) if image.id in shown else None for image in images
        ]

    shown, token = paging.described(call, names.IMAGE, given, rows, shaped, _FILTERS)
    return {"Images": [each.shape for each in shown], "NextToken": token}


def _owned(call: Call, images: list[Image]) -> list[Image]:
    """Return the images of the requested owners. The owner ``amazon`` has no images."""
    owners = set(call.get("Owners", []))
    if not owners:
        return images
    projects = {key for each in owners if (key := read_id(each)) is not None}
    if owned.is_named(call, owners):
        projects.add(call.project_id)
    return [image for image in images if image.project_id in projects]


def _executable(call: Call, images: list[Image]) -> list[Image]:
    """Return the images with the requested launch permissions: public images, images shared with the caller's project,
    and images that the caller's project shares with another project.
    """
    users = call.get("ExecutableUsers", [])
    if not users:
        return images
    known = images_of_use(call.project_id, listed=False)
    kept = {image.id for image in images if "all" in users and image.visibility == Image.Visibility.PUBLIC}
    if owned.is_named(call, users):
        kept |= set(known.filter(shared_with(call.context)).values_list("pk", flat=True))
    others = [key for each in users if (key := read_id(each)) is not None and key != call.project_id]
    if others:
        own = known.filter(project_id=call.project_id, visibility=Image.Visibility.SHARED)
        kept |= set(own.filter(members__project_id__in=others).values_list("pk", flat=True))
    return [image for image in images if image.id in kept]


def _mapped(name: str) -> Reader[Found]:
    return lambda found: [each["Ebs"].get(name) for each in found.shape["BlockDeviceMappings"]]


_NOTHING = (
    *(
        "boot-mode",
        "hypervisor",
        "image-watermark.source-image-id",
        "instance-type-specification.supported-instance-type",
    ),
    *("kernel-id", "owner-alias", "product-code", "product-code.type", "ramdisk-id", "source-image-id"),
    *("source-image-region", "sriov-net-support"),
)
"""Filters on attributes that no image has."""
_FILTERS: Filterable[Found] = Filterable(
    {
        "architecture": lambda found: found.shape["Architecture"],
        "block-device-mapping.delete-on-termination": _mapped("DeleteOnTermination"),
        "block-device-mapping.device-name": lambda found: [
            each["DeviceName"] for each in found.shape["BlockDeviceMappings"]
        ],
        "block-device-mapping.encrypted": _mapped("Encrypted"),
        "block-device-mapping.snapshot-id": _mapped("SnapshotId"),
        "block-device-mapping.volume-size": _mapped("VolumeSize"),
        "block-device-mapping.volume-type": _mapped("VolumeType"),
        "creation-date": lambda found: found.shape["CreationDate"],
        "description": lambda found: found.shape["Description"],
        "ena-support": lambda found: False,
        "free-tier-eligible": lambda found: False,
        "image-allowed": lambda found: True,
        "image-id": lambda found: found.shape["ImageId"],
        "image-type": lambda found: found.shape["ImageType"],
        "is-public": lambda found: found.shape["Public"],
        "manifest-location": lambda found: found.shape["ImageLocation"],
        "name": lambda found: found.shape["Name"],
        "owner-id": lambda found: found.shape["OwnerId"],
        "platform": lambda found: found.shape["Platform"],
        "root-device-name": lambda found: found.shape["RootDeviceName"],
        "root-device-type": lambda found: found.shape["RootDeviceType"],
        "source-instance-id": lambda found: found.shape["SourceInstanceId"],
        "state": lambda found: found.shape["State"],
        "state-reason-code": lambda found: (found.shape["StateReason"] or {}).get("Code"),
        "state-reason-message": lambda found: (found.shape["StateReason"] or {}).get("Message"),
        "virtualization-type": lambda found: found.shape["VirtualizationType"],
        **dict.fromkeys(_NOTHING, lambda found: []),
    },
    tags=lambda found: {tag["Key"]: tag["Value"] for tag in found.shape["Tags"]},
)
