"""Options of the metadata service (ModifyInstanceMetadataOptions, and of a launch), and the images of instances
(DescribeInstanceImageMetadata).

The host applies ``HttpTokens`` and ``HttpPutResponseHopLimit``; the other options are fixed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.images.shapes import image_shapes
from portal.api.ec2.actions.instances import related as reading
from portal.api.ec2.actions.instances import shapes, states
from portal.api.ec2.describe import NOTHING, Column, Described, Narrowed, Shape, members
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.compute.models import Instance
from provisioning.ec2 import ids, metadata_options
from provisioning.ec2_services.metadata_options import set_metadata_options
from provisioning.images.selectors import images_of_use


def _shapes(call: Call, instances: Sequence[Instance]) -> list[Shape]:
    related = reading.related(instances)
    of_instances = {instance.id: shapes.image_of(instance, related) for instance in instances}
    used = {image for image in of_instances.values() if image is not None}
    images = list(images_of_use(call.project_id, listed=False).filter(pk__in=used)) if used else []
    known = {image.id: shape for image, shape in zip(images, image_shapes(call, images), strict=True)}
    result = []
    for instance in instances:
        whole, image = shapes.instance_shape(instance, related), of_instances[instance.id]
        shape = {name: whole[name] for name in ("InstanceId", "InstanceType", "LaunchTime", "State", "Tags")}
        zone = shapes.zone_of(instance)
        shape |= {"AvailabilityZone": zone, "ZoneId": zone, "OwnerId": instance.project_id.hex}
        result.append(shape | {"ImageMetadata": _metadata(whole["ImageId"], known.get(image) if image else None)})
    return result


def _metadata(ec2_id: str, image: Shape | None) -> dict[str, Any]:
    """Return the metadata of an image; of an image that is deleted or no longer shared, only the id."""
    if image is None:
        return {"ImageId": ec2_id}
    same = {name: image[name] for name in ("ImageId", "Name", "OwnerId", "State", "CreationDate")}
    return same | {"IsPublic": image["Public"], "ImageAllowed": True}


DESCRIBE_INSTANCE_IMAGE_METADATA = Described(
    action="DescribeInstanceImageMetadata",
    rule="os_compute_api:servers:detail",
    member="InstanceImageMetadata",
    kind=names.INSTANCE,
    ids="InstanceIds",
    ids_exclude_pages=True,
    rows=lambda call: reading.visible_rows(call.context),
    shape=_shapes,
    order=reading.ORDER,
    filters={
        **members("AvailabilityZone InstanceType LaunchTime ZoneId"),
        "image-allowed": "ImageMetadata.ImageAllowed",
        "instance-id": Column("InstanceId", "pk", names.INSTANCE),
        "instance-state-name": Narrowed("State.Name", states.condition, exact=True),
        "owner-alias": NOTHING,
        "owner-id": Column("OwnerId", "project_id"),
    },
)


MOST_HOPS = 64


def read(specified: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns for the ``MetadataOptions`` of a request. Raises Ec2Error."""
    for name, present in shapes.FIXED_OPTIONS.items():
        if specified.get(name, present) != present:
            raise errors.unsupported(f"MetadataOptions.{name} is {present} for every instance of this cloud")
    columns: dict[str, Any] = {}
    tokens, hops = specified.get("HttpTokens"), specified.get("HttpPutResponseHopLimit")
    if tokens is not None:
        columns["http_tokens"] = tokens
    if hops is not None:
        if not 1 <= hops <= MOST_HOPS:
            raise errors.invalid_value("HttpPutResponseHopLimit", hops, f"It must be from 1 to {MOST_HOPS}.")
        columns["hop_limit"] = hops
    return columns


@action(
    "ModifyInstanceMetadataOptions",
    "os_compute_api:servers:update",
    takes="InstanceId HttpTokens HttpPutResponseHopLimit HttpEndpoint HttpProtocolIpv6 InstanceMetadataTags",
    missing="InvalidInstanceID.NotFound",
)
def modify_instance_metadata_options(call: Call) -> dict[str, Any]:
    """Update the metadata options of an instance."""
    (instance,) = reading.wanted(call, [call.arguments["InstanceId"]])
    columns = read(call.arguments)
    set_metadata_options(call.context, instance.id, columns)
    return {
        "InstanceId": ids.id_of(names.INSTANCE.prefix, instance.id),
        "InstanceMetadataOptions": shapes.options_shape(metadata_options.options_of([instance.id]).get(instance.id)),
    }
