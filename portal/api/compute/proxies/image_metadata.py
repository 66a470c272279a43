"""Additional properties of an image in the Compute API up to 2.38 ("Images (DEPRECATED)")."""

from collections.abc import Sequence
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import Version
from portal.api.compute.proxies.images import ImageProxy
from portal.api.compute.servers.schemas import META_BODY, METADATA_BODY
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.images import protections, services
from provisioning.images.changes import Change
from provisioning.images.models import Image
from provisioning.images.records import BASE, READ_ONLY


class ImageMetadataProxy(ImageProxy):
    """Base of the views of all items and of one item."""

    last_version: ClassVar[Version] = (2, 38)

    def readable(self, image: Image) -> dict[str, Any]:
        """The properties that the caller may read."""
        return protections.readable(self.context, image.properties)

    def change(self, image: Image, given: dict[str, str], removed: Sequence[str] = ()) -> dict[str, Any]:
        """Update properties as the Image API does; returns all properties."""
        for name in given:
            if name in BASE | READ_ONLY:
                raise InvalidInputError(f"{name} is an attribute of images, not metadata.", field=name)
        changes = [Change("remove", name) for name in removed]
        changes += [Change("add", name, value) for name, value in given.items()]
        return self.readable(services.patch(self.context, image.id, changes))


class ImageMetadataView(ImageMetadataProxy):
    """``/images/{id}/metadata``."""

    rules = {
        "GET": "get_image",
        "POST": "modify_image",
        "PUT": "modify_image",
    }
    schemas: ClassVar = {"POST": METADATA_BODY, "PUT": METADATA_BODY}

    def get(self, request: Request, image_id: str) -> Response:
        return Response({"metadata": self.readable(self.image(image_id))})

    def post(self, request: Request, image_id: str) -> Response:
        """Add or update items; items that the body does not contain are kept."""
        given = self.checked_body()["metadata"]
        return Response({"metadata": self.change(self.image(image_id), given)})

    def put(self, request: Request, image_id: str) -> Response:
        given, image = self.checked_body()["metadata"], self.image(image_id)
        removed = [name for name in self.readable(image) if name not in given]
        return Response({"metadata": self.change(image, given, removed)})


class ImageMetadataItemView(ImageMetadataProxy):
    """``/images/{id}/metadata/{key}``."""

    rules = {
        "GET": "get_image",
        "PUT": "modify_image",
        "DELETE": "modify_image",
    }
    schemas: ClassVar = {"PUT": META_BODY}

    def get(self, request: Request, image_id: str, key: str) -> Response:
        return Response({"meta": {key: self._found(self.image(image_id), key)}})

    def put(self, request: Request, image_id: str, key: str) -> Response:
        given = self.checked_body()["meta"]
        if key not in given:
            raise InvalidInputError("Request body and URI mismatch", field=key)
        self.change(self.image(image_id), given)
        return Response({"meta": given})

    def delete(self, request: Request, image_id: str, key: str) -> Response:
        image = self.image(image_id)
        self._found(image, key)
        self.change(image, {}, [key])
        return Response(status=204)

    def _found(self, image: Image, key: str) -> Any:
        metadata = self.readable(image)
        if key not in metadata:
            raise NotFoundError("Metadata item was not found")
        return metadata[key]
