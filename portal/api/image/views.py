"""Image service API v2: version documents, images, members, tags, schemas and what the service offers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.links import endpoint
from portal.api.common.paging import next_query, read_page
from portal.api.common.parsing import JSONParser
from portal.api.common.views import ServiceView
from portal.api.image import shapes
from portal.api.image.patches import API_NAMES, BASE, OldPatchParser, PatchParser, apply_patch
from portal.api.image.queries import read_filters, read_sort
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.images import selectors, services
from provisioning.images.models import Image

MINOR_VERSIONS = (7, 5, 2, 1, 0)
"""Of v2, the newest first: 2.5 brought shared and community images, 2.7 hidden ones and the multihash."""
PAGE = 100
"""Images of one answer when the client names no limit."""


class ImageView(ServiceView):
    """Base of the service's views."""

    service = "image"


class Versions(ImageView):
    """``GET /image``: the versions there are, with Glance's status 300; ``/image/versions`` says the same with 200."""

    public = True
    status = 300

    def get(self, request: Request) -> Response:
        """List the versions."""
        link = {"rel": "self", "href": f"{endpoint(request, 'image')}/v2/"}
        return Response(
            {
                "versions": [
                    {"id": f"v2.{minor}", "status": "SUPPORTED" if index else "CURRENT", "links": [link]}
                    for index, minor in enumerate(MINOR_VERSIONS)
                ]
            },
            status=self.status,
        )


class Images(ImageView):
    """``/image/v2/images``."""

    rules = {"GET": "image:images:list", "POST": "image:images:create"}

    def get(self, request: Request) -> Response:
        """List images: filters, ``sort``, ``limit``, ``marker``."""
        page = read_page(request)
        if not page.asked:
            page = replace(page, limit=PAGE)
        rows = selectors.images_for(
            self.context, read_filters(request), limit=page.limit, marker=page.marker, sort=read_sort(request)
        )
        first = request.query_params.copy()
        first.pop("marker", None)
        following = next_query(request, page, [row.id for row in rows])
        body: dict[str, Any] = {
            "images": [shapes.image(row) for row in rows],
            "first": f"/v2/images?{first.urlencode()}" if first else "/v2/images",
            "schema": "/v2/schemas/images",
            **({"next": f"/v2/images?{following}"} if following else {}),
        }
        return Response(body)

    def post(self, request: Request) -> Response:
        """Make a record; what is no attribute is an additional property."""
        body = request.data
        if not isinstance(body, dict):
            msg = "Request body must be a JSON object."
            raise InvalidInputError(msg)
        image = services.create(self.context, image_id=_new_id(body), **_values(body))
        shape = shapes.image(image)
        response = Response(shape, status=201)
        response["Location"] = f"{endpoint(request, 'image')}{shape['self']}"
        return response


def _new_id(body: dict[str, Any]) -> Any:
    """Return the id that the client chose, or None."""
    if "id" not in body:
        return None
    found = read_id(body["id"])
    if found is None:
        msg = f"Invalid image id format: {body['id']!r:.80}"
        raise InvalidInputError(msg, field="id")
    return found


def _values(body: dict[str, Any]) -> dict[str, Any]:
    """Split a body into the record's fields and additional properties."""
    values: dict[str, Any] = {API_NAMES.get(name, name): body[name] for name in BASE & body.keys()}
    owner = body.get("owner")
    if owner is not None:
        msg = "Attribute 'owner' is reserved: an image belongs to the project of the token."
        raise ForbiddenError(msg, field="owner")
    properties = {name: value for name, value in body.items() if name not in BASE and name not in {"id", "owner"}}
    return {**values, "properties": properties}


class ImageDetail(ImageView):
    """``/image/v2/images/{id}``."""

    rules = {"GET": "image:images:show", "PATCH": "image:images:update", "DELETE": "image:images:delete"}
    parser_classes = [PatchParser, OldPatchParser, JSONParser]

    def get(self, request: Request, image_id: str) -> Response:
        """Show an image."""
        return Response(shapes.image(selectors.image_for(self.context, image_id)))

    def patch(self, request: Request, image_id: str) -> Response:
        """Change an image by JSON patch."""
        values = apply_patch(selectors.image_for(self.context, image_id), request.data)
        return Response(shapes.image(services.update(self.context, image_id, values)))

    def delete(self, request: Request, image_id: str) -> Response:
        """End an image."""
        services.delete(self.context, image_id)
        return Response(status=204)


class ImageTag(ImageView):
    """``/image/v2/images/{id}/tags/{tag}``."""

    rules = {"PUT": "image:tags:add", "DELETE": "image:tags:remove"}

    def put(self, request: Request, image_id: str, tag: str) -> Response:
        """Add a tag."""
        services.set_tag(self.context, image_id, tag, present=True)
        return Response(status=204)

    def delete(self, request: Request, image_id: str, tag: str) -> Response:
        """Remove a tag."""
        services.set_tag(self.context, image_id, tag, present=False)
        return Response(status=204)


class Members(ImageView):
    """``/image/v2/images/{id}/members``: an image is shared with no project by name."""

    rules = {"GET": "image:members:list"}

    def get(self, request: Request, image_id: str) -> Response:
        """List the members; only an image that could have some answers, as in Glance."""
        image = selectors.image_for(self.context, image_id)
        if image.visibility != Image.Visibility.SHARED:
            msg = "Only shared images have members."
            raise ForbiddenError(msg)
        return Response({"members": [], "schema": "/v2/schemas/members"})


class Schema(ImageView):
    """``/image/v2/schemas/{name}``."""

    rules = {"GET": "image:schemas:show"}

    def get(self, request: Request, name: str) -> Response:
        """Show the JSON schema of a resource."""
        if name not in shapes.SCHEMAS:
            msg = f"There is no schema {name[:80]}."
            raise NotFoundError(msg)
        return Response(shapes.SCHEMAS[name])


class ImportInfo(ImageView):
    """``/image/v2/info/import``: images are uploaded, not imported."""

    rules = {"GET": "image:info:import"}

    def get(self, request: Request) -> Response:
        """List the import methods: none."""
        methods = {"description": "Import methods available.", "type": "array", "value": []}
        return Response({"import-methods": methods})


class StoresInfo(ImageView):
    """``/image/v2/info/stores``: one store without a name, which Glance answers with 404."""

    rules = {"GET": "image:info:stores"}

    def get(self, request: Request) -> Response:
        """Say that there is nothing to choose."""
        msg = "Multi backend is not supported at this site."
        raise NotFoundError(msg)
