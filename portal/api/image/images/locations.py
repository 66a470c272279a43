"""Locations of an image's data: ``/image/v2/images/{id}/locations`` (API 2.17), for services and operators."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.image.base import ImageView
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


class Locations(ImageView):
    """``/image/v2/images/{id}/locations``."""

    rules = {"GET": "fetch_image_location", "POST": "add_image_location"}
    schemas: ClassVar[Schemas] = {"POST": LOCATION}

    def get(self, request: Request, image_id: str) -> Response:
        """List the location of the data; empty if there is none."""
        return Response(selectors.locations_for(self.context, image_id))

    def post(self, request: Request, image_id: str) -> Response:
        """Refused: the store holds only uploaded and imported data, and no references to other locations."""
        self.checked_body()
        image = selectors.image_for(self.context, image_id)
        if image.status != Image.Status.QUEUED:
            raise ConflictError(f"It's not allowed to add locations if image status is {image.status}.")
        raise ForbiddenError("The store of this cloud has no external locations: import the image by its URL.")
