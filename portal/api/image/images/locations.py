"""Locations of an image's data: ``/image/v2/images/{id}/locations`` (API 2.17), for services and operators."""

from typing import Any

from portal.api.frame.parts import Call, parts
from portal.api.image.base import ImageView
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.images import selectors
from provisioning.images.models import Image

HASHES = ["sha1", "sha256", "sha512", "md5"]
LOCATION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "maxLength": 2048},
        "validation_data": {
            "type": "object",
            "properties": {
                "os_hash_algo": {"type": "string", "enum": HASHES},
                "os_hash_value": {"type": "string", "maxLength": 128},
            },
            "additionalProperties": False,
            "dependentRequired": {"os_hash_value": ["os_hash_algo"], "os_hash_algo": ["os_hash_value"]},
        },
    },
    "required": ["url"],
}


def _add(context: RequestContext, image_id: str, body: dict[str, Any]) -> None:
    """Refuse: the store holds only uploaded and imported data, and no references to other locations."""
    image = selectors.image_for(context, image_id)
    if image.status != Image.Status.QUEUED:
        raise ConflictError(f"It's not allowed to add locations if image status is {image.status}.")
    raise ForbiddenError("The store of this cloud has no external locations: import the image by its URL.")


PARTS = parts(
    ImageView,
    "images/{image_id}/locations",
    {
        "GET": Call(
            selectors.locations_for,
            "fetch_image_location",
            "List the location of the data; empty if there is none.",
            shape=lambda view, found: found,
        ),
        "POST": Call(
            _add,
            "add_image_location",
            "Refused: the store holds only uploaded and imported data, and no references to other locations.",
            body=LOCATION,
            status=201,
        ),
    },
)
