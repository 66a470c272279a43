"""Information about the image service: import methods, stores, usage and schemas; Novella has no image cache.

Also the image catalogue, ``/image/v2/catalogue``, which is Novella's own.
"""

from typing import Any

from django.conf import settings

from portal.api.frame import Call, Json, Schema, parts, refuse
from portal.api.image.dialect import ImageView
from portal.api.image.images.schemas import published
from portal.api.image.images.views import moment
from provisioning.catalogue import services
from provisioning.catalogue.selectors import Offer, catalogue_for, offer_for
from provisioning.catalogue.services.adding import may_publish
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.images import selectors
from provisioning.images.models import Image
from provisioning.images.selectors.storage import store_properties, usage_of


def _usage(context: RequestContext) -> Json:
    return {name: {"limit": limit, "usage": used} for name, (used, limit) in usage_of(context).items()}


def _schema(context: RequestContext, name: str) -> Schema:
    schema = published(name)
    if schema is None:
        raise NotFoundError(f"There is no schema {name[:80]}.")
    return schema


def _methods(context: RequestContext) -> Json:
    return {"description": "Import methods available.", "type": "array", "value": settings.IMPORT_METHODS}


def _stores(context: RequestContext) -> list[Json]:
    description = "The store of all images of this cloud."
    return [{"id": settings.IMAGE_STORE_ID, "description": description, "default": "true"}]


def _with_properties(view: Any, stores: list[Json]) -> list[Json]:
    return [{**store, "type": "file", "weight": 0, "properties": store_properties()} for store in stores]


def _refuse(context: RequestContext, store_id: str, image_id: str) -> None:
    """Raise an error: the copy in the only store is the image's last copy."""
    if store_id != settings.IMAGE_STORE_ID:
        raise ConflictError(f"The selected store {store_id[:80]} is not available on this node.")
    image = selectors.image_for(context, image_id)
    if image.status != Image.Status.ACTIVE:
        raise ConflictError("It's not allowed to remove image data from store if image status is not 'active'")
    msg = "Cannot delete image data from the only store containing it. Consider deleting the image instead."
    raise ForbiddenError(msg)


def _uncached(rule: str) -> Call:
    """Return an operation of the cache API, which is refused because there is no image cache."""
    return Call(refuse(NotFoundError, "Caching via API is not supported at this site."), rule, status=404)


PARTS = parts(
    ImageView,
    "",
    {
        "GET info/import": Call(_methods, "novella:get_import_info", "List the import methods.", name="import-methods"),
        "GET info/stores": Call(_stores, "novella:get_stores_info", "List the only store.", name="stores"),
        "GET info/stores/detail": Call(
            _stores,
            "stores_info_detail",
            "List the only store with its properties.",
            name="stores",
            shape=_with_properties,
        ),
        "GET info/usage": Call(
            _usage,
            "novella:get_usage_info",
            "Show usage and limits of the project's images; sizes in MiB, -1 without a limit.",
            name="usage",
        ),
        "GET schemas/{name}": Call(
            _schema,
            "novella:get_image_schema",
            "Show the JSON schema of a resource.",
            shape=lambda view, schema: schema,
        ),
        "DELETE stores/{store_id}/{image_id}": Call(
            _refuse,
            "delete_image_location",
            "Refused: the copy in the only store is the image's last copy, which is deleted only with the image.",
        ),
        "GET cache": _uncached("cache_list"),
        "DELETE cache": _uncached("cache_delete"),
        "POST cache/clean": _uncached("cache_clean"),
        "POST cache/prune": _uncached("cache_prune"),
        "PUT cache/{image_id}": _uncached("cache_image"),
        "DELETE cache/{image_id}": _uncached("cache_delete"),
    },
)


CATALOGUE_ADD: Schema = {
    "type": "object",
    "properties": {"visibility": {"enum": [Image.Visibility.PUBLIC.value, Image.Visibility.PRIVATE.value]}},
    "additionalProperties": False,
}


def _list_catalogue(context: RequestContext) -> Json:
    found = catalogue_for(context)
    return {
        "catalogue": [offer_shape(offer) for offer in found.offers],
        "name": found.name,
        "updated": moment(found.updated) if found.updated else None,
        "fault": found.fault or None if may_publish(context) else None,
    }


def _add_from_catalogue(context: RequestContext, entry_id: str, body: dict[str, str]) -> Offer:
    services.add(context, entry_id, for_all=body.get("visibility") == Image.Visibility.PUBLIC)
    return offer_for(context, entry_id)


def offer_shape(offer: Offer) -> Json:
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


CATALOGUE = parts(
    ImageView,
    "catalogue",
    {
        "GET": Call(
            _list_catalogue,
            "get_images",
            "List the entries of the catalogue. ``fault``, for operators: why the index could not be read last time.",
            shape=lambda view, found: found,
        ),
        "GET /{entry_id}": Call(offer_for, "get_images", shape=lambda view, offer: offer_shape(offer)),
        "POST /{entry_id}/add": Call(
            _add_from_catalogue,
            "add_image",
            "Create the image and start its import: for the caller's project, or ``public`` for all projects.",
            body=CATALOGUE_ADD,
            shape=lambda view, offer: offer_shape(offer),
            status=202,
        ),
    },
)
