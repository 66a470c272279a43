"""The image catalogue: ``/image/v2/catalogue``, Novella's own."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.image.base import ImageView
from portal.api.image.images.shapes import moment
from provisioning.catalogue import services
from provisioning.catalogue.selectors import Offer, catalogue_for, offer_for
from provisioning.catalogue.services.adding import may_publish
from provisioning.images.models import Image

ADD: dict[str, Any] = {
    "type": "object",
    "properties": {"visibility": {"enum": [Image.Visibility.PUBLIC.value, Image.Visibility.PRIVATE.value]}},
    "additionalProperties": False,
}


class Catalogue(ImageView):
    """``/image/v2/catalogue``."""

    rules = {"GET": "get_images"}

    def get(self, request: Request) -> Response:
        """List the entries of the catalogue. ``fault``, for operators: why the index could not be read last time."""
        found = catalogue_for(self.context)
        return Response(
            {
                "catalogue": [shape(offer) for offer in found.offers],
                "name": found.name,
                "updated": moment(found.updated) if found.updated else None,
                "fault": found.fault or None if may_publish(self.context) else None,
            }
        )


class CatalogueEntry(ImageView):
    """``/image/v2/catalogue/{entry}``."""

    rules = {"GET": "get_images"}

    def get(self, request: Request, entry_id: str) -> Response:
        return Response(shape(offer_for(self.context, entry_id)))


class CatalogueAdd(ImageView):
    """``/image/v2/catalogue/{entry}/add``."""

    rules = {"POST": "add_image"}
    schemas: ClassVar[Schemas] = {"POST": ADD}

    def post(self, request: Request, entry_id: str) -> Response:
        """Create the image and start its import: for the caller's project, or ``public`` for all projects."""
        for_all = self.checked_body().get("visibility") == Image.Visibility.PUBLIC
        services.add(self.context, entry_id, for_all=for_all)
        return Response(shape(offer_for(self.context, entry_id)), status=202)


def shape(offer: Offer) -> dict[str, Any]:
    """Show an entry; sizes are in bytes, ``min_disk`` in GiB, ``min_ram`` in MiB."""
    entry = offer.entry
    return {
        "id": entry.id,
        "name": entry.name,
        "version": entry.version,
        "description": entry.description,
        "architecture": entry.architecture,
        "disk_format": entry.disk_format,
        "file": entry.file,
        "size": entry.size,
        "min_disk": entry.min_disk,
        "min_ram": entry.min_ram,
        "properties": entry.image_properties,
        "status": offer.state.value,
        "image_id": str(offer.image.id) if offer.image else None,
        "image_version": offer.version or None,
        "visibility": offer.image.visibility if offer.image else None,
        "done": offer.done,
        "total": offer.total,
        "fault": offer.fault or None,
    }
