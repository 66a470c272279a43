"""Imports: staged data, or data at a URL, becomes an image's data in the background."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.image.base import ImageView
from provisioning.common.errors import InvalidInputError
from provisioning.images import services

IMPORT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "method": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 80},
                "uri": {"type": "string", "maxLength": 2048},
            },
            "required": ["name"],
        },
        "stores": {"type": "array", "items": {"type": "string", "maxLength": 255}, "minItems": 1, "maxItems": 100},
        "all_stores": {"type": "boolean"},
        "all_stores_must_succeed": {"type": "boolean"},
    },
    "required": ["method"],
}


class ImageImport(ImageView):
    """``/image/v2/images/{id}/import``."""

    rules = {"POST": "modify_image"}
    schemas: ClassVar[Schemas] = {"POST": IMPORT}

    def post(self, request: Request, image_id: str) -> Response:
        """Start the import. The image service has one store; ``stores`` and the older header ``X-Image-Meta-Store`` may
        name only this store.
        """
        body = self.checked_body()
        stores = body.get("stores")
        if stores is not None and body.get("all_stores"):
            raise InvalidInputError("'all_stores' and 'stores' cannot be used together.", field="stores")
        if stores is None and "X-Image-Meta-Store" in request.headers:
            stores = [request.headers["X-Image-Meta-Store"]]
        method = body["method"]
        asked = services.ImportRequest(method["name"], uri=method.get("uri"), stores=stores, body=_known(body))
        services.import_image(self.context, image_id, asked)
        return Response(status=202)


def _known(body: dict[str, Any]) -> dict[str, Any]:
    """Return the supported members of a request, for the task's record."""
    method = {name: body["method"][name] for name in ("name", "uri") if name in body["method"]}
    return {
        "method": method,
        **{name: body[name] for name in IMPORT["properties"] if name in body and name != "method"},
    }
