"""Images created from servers: their records and removal.

The records are created with the cloud's privileges, in the owner's project. Properties that the caller specifies are
checked with the caller's privileges.
"""

import contextlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from compute_agent.contract.firmware_state import PROPERTY, from_property
from provisioning.common.context import RequestContext, cloud_in_project
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError, TooLargeError
from provisioning.compute.models import Instance
from provisioning.images import services as images
from provisioning.images.data import store
from provisioning.images.models import Image
from provisioning.images.records import protections
from provisioning.images.records.fields import BASE, check_name
from provisioning.images.records.properties import FOUND

DISK_FORMAT, CONTAINER_FORMAT = "qcow2", "bare"
SNAPSHOT, BACKUP = "snapshot", "backup"
_OF_ITS_OWN = frozenset({"image_type", "backup_type", "instance_uuid", "instance_owner"})
"""Properties of an image that servers launched from it do not pass on to their own images."""
_NOT_INHERITED = frozenset(
    {"cache_in_nova", "bittorrent"}
    | {"img_signature", "img_signature_hash_method", "img_signature_key_type", "img_signature_certificate_uuid"}
    | {"cinder_encryption_key_id", "cinder_encryption_key_deletion_policy"}
    | {"image_id", "image_name", FOUND}
    | {PROPERTY}
    | BASE
)
"""Properties that describe the data of one image. As in Nova, they are not inherited. ``BASE``: an image's attributes,
which are among the image properties of a volume.
"""
READY = (Image.Status.ACTIVE, Image.Status.DEACTIVATED)


@dataclass(frozen=True, slots=True)
class ServerImage:
    """An image to create from a server: ``kind`` is ``snapshot`` or ``backup``, ``more`` are properties."""

    id: uuid.UUID
    name: str
    kind: str = SNAPSHOT
    more: Mapping[str, str] = field(default_factory=dict)
    disk_format: str = DISK_FORMAT


def check_properties(context: RequestContext, properties: Mapping[str, str]) -> None:
    """Raise InvalidInputError for properties that the caller may not set."""
    try:
        for name in properties:
            check_name(name)
        protections.check_change(context, {}, properties)
    except ForbiddenError as error:
        raise InvalidInputError(error.message, field="metadata") from error


def make_record(context: RequestContext, instance: Instance, made: ServerImage) -> Image:
    """Create the ``queued`` record of an image whose data a host will upload, inside the caller's transaction.

    As in Nova, it belongs to the caller's project, and is shared with the server's project if that is another one.
    """
    owner = context.project_id or instance.project_id
    own = owner == instance.project_id
    base = Image.objects.filter(id=instance.image_id).first() if instance.image_id else None
    properties = {
        "instance_uuid": str(instance.id),
        "user_id": (context.user_id or instance.user_id).hex,
        "image_type": made.kind,
        "base_image_ref": str(instance.image_id or ""),
        "image_location": "snapshot",
        "image_state": "available",
        "owner_id": instance.project_id.hex,
        **({} if own else {"instance_owner": instance.project_id.hex}),
    }
    cloud = cloud_in_project(owner, request_id=context.request_id)
    image = images.create(
        cloud,
        image_id=made.id,
        name=made.name,
        visibility=Image.Visibility.PRIVATE if own else Image.Visibility.SHARED,
        disk_format=made.disk_format,
        container_format=CONTAINER_FORMAT,
        min_disk=max(base.min_disk if base else 0, instance.flavor["root_gb"]),
        min_ram=base.min_ram if base else 0,
        properties={**_inherited(instance), **properties, **made.more},
    )
    if not own:
        images.add_member(cloud, image.id, str(instance.project_id))
    return image


def _inherited(instance: Instance) -> dict[str, str]:
    """Return the properties of the server's image that also apply to copies of its disk."""
    kept: dict[str, str] = {}
    for name, value in instance.image_properties.items():
        with contextlib.suppress(ForbiddenError):
            check_name(name)
            if name not in _OF_ITS_OWN | _NOT_INHERITED:
                kept[name] = str(value)
    return kept


def keep_variables(image_id: uuid.UUID | str, packed: str) -> None:
    """Store the UEFI variables of the server in its image; ignored when the image was deleted."""
    image = Image.objects.filter(id=image_id).first()
    if image is None or not from_property(packed):
        return
    with contextlib.suppress(NotFoundError, ForbiddenError, TooLargeError):
        images.update(
            cloud_in_project(image.project_id), image.id, {"properties": {**image.properties, PROPERTY: packed}}
        )


def is_ready(image_id: uuid.UUID | str) -> bool:
    return Image.objects.filter(id=image_id, status__in=READY).exists()


def holds_ready(image_id: uuid.UUID | str) -> bool:
    """Return whether an image has its data, and lock it against deletion until the caller's transaction ends."""
    ready = Image.objects.select_for_update(no_key=True).filter(id=image_id, status__in=READY)
    return bool(ready.values_list("id"))


def remove_image(image_id: uuid.UUID | str, *, unless_ready: bool = False) -> bool:
    """Delete an image that was created from a server. Returns whether it was deleted. An empty id is ignored.

    With ``unless_ready`` an image with its data is kept, even if its record does not show the data yet: the server may
    have left its host, and the image may be the only copy of its disk. Protected and deleted images are ignored.
    """
    image = Image.objects.filter(id=image_id).first() if image_id else None
    if image is None or (unless_ready and image.status in READY):
        return False
    if unless_ready and store.is_whole(image.id):
        images.adopt_complete(image.id)
        return False
    try:
        images.delete(cloud_in_project(image.project_id), image.id, though_used=True)
    except (NotFoundError, ForbiddenError):
        return False
    return True
