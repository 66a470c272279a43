"""The image catalogue: ``/image/v2/catalogue``, Novella's own."""

from typing import Any

from portal.api.frame.parts import Call, parts
from portal.api.image.dialect import ImageView
from portal.api.image.images.shapes import moment
from provisioning.catalogue import services
from provisioning.catalogue.selectors import Offer, catalogue_for, offer_for
from provisioning.catalogue.services.adding import may_publish
from provisioning.common.context import RequestContext
from provisioning.images.models import Image

ADD: dict[str, Any] = {
    "type": "object",
    "properties": {"visibility": {"enum": [Image.Visibility.PUBLIC.value, Image.Visibility.PRIVATE.value]}},
    "additionalProperties": False,
}


def _list(context: RequestContext) -> dict[str, Any]:
    found = catalogue_for(context)
    return {
        "catalogue": [shape(offer) for offer in found.offers],
        "name": found.name,
        "updated": moment(found.updated) if found.updated else None,
        "fault": found.fault or None if may_publish(context) else None,
    }


def _add(context: RequestContext, entry_id: str, body: dict[str, str]) -> Offer:
    services.add(context, entry_id, for_all=body.get("visibility") == Image.Visibility.PUBLIC)
    return offer_for(context, entry_id)


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


PARTS = parts(
    ImageView,
    "catalogue",
    {
        "GET": Call(
            _list,
            "get_images",
            "List the entries of the catalogue. ``fault``, for operators: why the index could not be read last time.",
            shape=lambda view, found: found,
        ),
        "GET /{entry_id}": Call(offer_for, "get_images", shape=lambda view, offer: shape(offer)),
        "POST /{entry_id}/add": Call(
            _add,
            "add_image",
            "Create the image and start its import: for the caller's project, or ``public`` for all projects.",
            body=ADD,
            shape=lambda view, offer: shape(offer),
            status=202,
        ),
    },
)
