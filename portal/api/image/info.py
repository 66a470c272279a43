"""Information about the image service: import methods, stores, usage and schemas. Novella has no image cache."""

from typing import Any

from django.conf import settings

from portal.api.common.validation import Schema
from portal.api.frame.parts import Call, parts, refuse
from portal.api.image.dialect import ImageView
from portal.api.image.images.schemas import published
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.images import selectors
from provisioning.images.models import Image
from provisioning.images.selectors.storage import store_properties, usage_of


def _usage(context: RequestContext) -> dict[str, Any]:
    return {name: {"limit": limit, "usage": used} for name, (used, limit) in usage_of(context).items()}


def _schema(context: RequestContext, name: str) -> Schema:
    schema = published(name)
    if schema is None:
        raise NotFoundError(f"There is no schema {name[:80]}.")
    return schema


def _methods(context: RequestContext) -> dict[str, Any]:
    return {"description": "Import methods available.", "type": "array", "value": settings.IMPORT_METHODS}


def _stores(context: RequestContext) -> list[dict[str, Any]]:
    description = "The store of all images of this cloud."
    return [{"id": settings.IMAGE_STORE_ID, "description": description, "default": "true"}]


def _with_properties(view: Any, stores: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
