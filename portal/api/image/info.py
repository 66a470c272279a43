"""Information about the image service: import methods, stores and usage. Novella has no image cache."""

from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.refusals import Operation, answering, refuse
from portal.api.image.base import ImageView
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.images import selectors
from provisioning.images.models import Image
from provisioning.images.selectors.storage import store_properties, usage_of


class ImportInfo(ImageView):
    """``/image/v2/info/import``."""

    rules = {"GET": "novella:get_import_info"}

    def get(self, request: Request) -> Response:
        """List the import methods."""
        methods = {"description": "Import methods available.", "type": "array", "value": settings.IMPORT_METHODS}
        return Response({"import-methods": methods})


class StoresInfo(ImageView):
    """``/image/v2/info/stores``."""

    rules = {"GET": "novella:get_stores_info"}

    def get(self, request: Request) -> Response:
        """List the only store."""
        return Response({"stores": [_store()]})


class StoresDetail(ImageView):
    """``/image/v2/info/stores/detail``."""

    rules = {"GET": "stores_info_detail"}

    def get(self, request: Request) -> Response:
        """List the only store with its properties."""
        return Response({"stores": [{**_store(), "type": "file", "weight": 0, "properties": store_properties()}]})


class Usage(ImageView):
    """``/image/v2/info/usage``."""

    rules = {"GET": "novella:get_usage_info"}

    def get(self, request: Request) -> Response:
        """Show usage and limits of the project's images; sizes in MiB, -1 without a limit."""
        found = usage_of(self.context)
        usage = {name: {"limit": limit, "usage": used} for name, (used, limit) in found.items()}
        return Response({"usage": usage})


class StoredImage(ImageView):
    """``/image/v2/stores/{store}/{image}``: the copy of an image in a store."""

    rules = {"DELETE": "delete_image_location"}

    def delete(self, request: Request, store_id: str, image_id: str) -> Response:
        """Refused: the copy in the only store is the image's last copy, which is deleted only with the image."""
        if store_id != settings.IMAGE_STORE_ID:
            raise ConflictError(f"The selected store {store_id[:80]} is not available on this node.")
        image = selectors.image_for(self.context, image_id)
        if image.status != Image.Status.ACTIVE:
            raise ConflictError("It's not allowed to remove image data from store if image status is not 'active'")
        msg = "Cannot delete image data from the only store containing it. Consider deleting the image instead."
        raise ForbiddenError(msg)


NO_CACHE = refuse(NotFoundError, "Caching via API is not supported at this site.")


def _uncached(**rules: str) -> type[ImageView]:
    """Return a view of the cache API that refuses these methods, because there is no image cache."""
    return answering(ImageView, {method: Operation(rule, NO_CACHE) for method, rule in rules.items()})


Cache = _uncached(GET="cache_list", DELETE="cache_delete")
CachedImage = _uncached(PUT="cache_image", DELETE="cache_delete")
CacheClean = _uncached(POST="cache_clean")
CachePrune = _uncached(POST="cache_prune")


def _store() -> dict[str, Any]:
    description = "The store of all images of this cloud."
    return {"id": settings.IMAGE_STORE_ID, "description": description, "default": "true"}
