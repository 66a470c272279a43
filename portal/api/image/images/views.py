"""Image service API v2: images."""

from typing import Any, ClassVar

from django.conf import settings
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import conditional
from portal.api.common.links import endpoint
from portal.api.common.views import Schemas
from portal.api.frame.parts import Call, parts
from portal.api.image.dialect import ImageView
from portal.api.image.images import shapes
from portal.api.image.images.patches import PATCHES, OldPatchParser, PatchParser, read_patch
from portal.api.image.images.queries import LIST_PAGES, SORT_COLUMNS, SORTING, read_filters
from portal.api.image.images.schemas import IMAGE_CREATE, IMAGE_PATCH, IMAGE_QUERY
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.images import selectors, services
from provisioning.images.models import Image
from provisioning.images.records import protections
from provisioning.images.records.fields import BASE, COLUMN_OF


def shape_for(context: RequestContext, image: Image) -> shapes.Shape:
    """Return an image with the properties that the caller may read."""
    return shapes.image(image, protections.readable(context, image.properties))


class Images(ImageView):
    """``/image/v2/images``."""

    rules = {"GET": "get_images", "POST": "add_image"}
    schemas: ClassVar[Schemas] = {"POST": IMAGE_CREATE}
    queries: ClassVar[Schemas] = {"GET": IMAGE_QUERY}

    def get(self, request: Request) -> Response:
        """List images: filters, ``sort``, ``limit``, ``marker``."""
        page = LIST_PAGES.read(request)
        filters, order = read_filters(request), SORTING.read(request.query_params, SORT_COLUMNS)
        first = request.query_params.copy()
        first.pop("marker", None)

        def make() -> dict[str, Any]:
            rows = selectors.images_for(self.context, filters, limit=page.limit, marker=page.marker, sort=order)
            following = LIST_PAGES.next_query(request, page, [row.id for row in rows])
            return {
                "images": [shape_for(self.context, row) for row in rows],
                "first": f"/v2/images?{first.urlencode()}" if first else "/v2/images",
                "schema": "/v2/schemas/images",
                **({"next": f"/v2/images?{following}"} if following else {}),
            }

        return conditional.answer(self, make, remember=not settings.IMAGE_PROPERTY_PROTECTIONS)

    def post(self, request: Request) -> Response:
        """Create an image record; members of the body that are not attributes are additional properties."""
        body = self.checked_body()
        image = services.create(self.context, image_id=read_id(body.get("id")), **_values(body))
        shape = shape_for(self.context, image)
        response = Response(shape, status=201)
        response["Location"] = f"{endpoint(request, 'image')}{shape['self']}"
        response["OpenStack-image-import-methods"] = ",".join(settings.IMPORT_METHODS)
        response["OpenStack-image-store-ids"] = settings.IMAGE_STORE_ID
        return response


def _values(body: dict[str, Any]) -> dict[str, Any]:
    """Return the record's fields in a body, with the body's other members as ``properties``."""
    values: dict[str, Any] = {COLUMN_OF.get(name, name): body[name] for name in BASE & body.keys()}
    if values.get("owner", "") is None:
        del values["owner"]
    properties = {name: value for name, value in body.items() if name not in BASE and name != "id"}
    return {**values, "properties": properties}


class ImageDetail(ImageView):
    """Base of the calls on ``/image/v2/images/{id}``."""

    parser_classes = [PatchParser, OldPatchParser]

    def fault(self, error: Exception) -> Response:
        """Add the supported content types to the error for an unsupported content type."""
        if not isinstance(error, UnsupportedMediaType):
            return super().fault(error)
        response = super().fault(error)
        response.data["message"] = f"Image PATCH expects Content-Type one of: {PATCHES}"
        response["Accept-Patch"] = PATCHES
        return response


def _changes(view: ImageView) -> dict[str, Any]:
    old = str(view.request.content_type).partition(";")[0].strip().lower() == OldPatchParser.media_type
    return {"changes": read_patch(view.request.data, old=old)}


def _image(view: ImageView, image: Image) -> shapes.Shape:
    return shape_for(view.context, image)


PARTS = parts(
    ImageDetail,
    "images/{image_id}",
    {
        "GET": Call(selectors.image_for, "get_image", shape=_image),
        "PATCH": Call(
            lambda context, image_id, *, changes: services.patch(context, image_id, changes),
            "modify_image",
            "Change an image by JSON patch.",
            shape=_image,
            more=_changes,
        ),
        "DELETE": Call(services.delete, "delete_image"),
    },
    schemas={"PATCH": IMAGE_PATCH},
)
