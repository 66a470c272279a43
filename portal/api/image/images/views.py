"""Images (Image service API v2 reference), and their parts: members (the projects that an image is shared with), tags,
the deactivation and locations.
"""

import datetime
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.conf import settings
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import conditional
from portal.api.frame import Call, Json, Schema, Values, endpoint, parts
from portal.api.image.dialect import ImageView
from portal.api.image.images import schemas as image_schemas
from portal.api.image.images.queries import LIST_PAGES, SORT_COLUMNS, SORTING, read_filters
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.common.values.ids import read_id
from provisioning.images import selectors, services
from provisioning.images.models import Image, ImageMember
from provisioning.images.records import protections
from provisioning.images.records.fields import BASE, COLUMN_OF


def image_shape(row: Image, properties: Mapping[str, str | None]) -> Json:
    """Show an image; the additional properties that the caller may read are on the same level as its attributes."""
    path = f"/v2/images/{row.id}"
    return {
        **properties,
        **row.import_state,
        "id": str(row.id),
        "name": row.name or ("" if row.empty_name else None),
        "status": row.status,
        "visibility": row.visibility,
        "owner": row.project_id.hex,
        "disk_format": row.disk_format,
        "container_format": row.container_format,
        "size": row.size,
        "virtual_size": row.virtual_size,
        "checksum": row.checksum,
        "os_hash_algo": row.os_hash_algo,
        "os_hash_value": row.os_hash_value,
        "os_hidden": row.hidden,
        "protected": row.protected,
        "min_disk": row.min_disk,
        "min_ram": row.min_ram,
        "tags": row.tags,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
        **({"stores": settings.IMAGE_STORE_ID} if row.os_hash_value else {}),
    }


def member_shape(row: ImageMember) -> Json:
    return {
        "image_id": str(row.image_id),
        "member_id": row.project_id.hex,
        "status": row.status,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "schema": "/v2/schemas/member",
    }


def moment(value: datetime.datetime) -> str:
    """Return a time as Glance writes it, in UTC without fractions."""
    return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shape_for(context: RequestContext, image: Image) -> Json:
    """Return an image with the properties that the caller may read."""
    return image_shape(image, protections.readable(context, image.properties))


class Images(ImageView):
    """``/image/v2/images``."""

    rules = {"GET": "get_images", "POST": "add_image"}
    schemas = {"POST": image_schemas.IMAGE_CREATE}
    queries = {"GET": image_schemas.IMAGE_QUERY}

    def get(self, request: Request) -> Response:
        """List images: filters, ``sort``, ``limit``, ``marker``."""
        page = LIST_PAGES.read(request)
        filters, order = read_filters(request), SORTING.read(request.query_params, SORT_COLUMNS)
        first = request.query_params.copy()
        first.pop("marker", None)

        def make() -> Json:
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


def _values(body: Json) -> Values:
    """Return the record's fields in a body, with the body's other members as ``properties``."""
    values: Values = {COLUMN_OF.get(name, name): body[name] for name in BASE & body.keys()}
    if values.get("owner", "") is None:
        del values["owner"]
    properties = {name: value for name, value in body.items() if name not in BASE and name != "id"}
    return {**values, "properties": properties}


class ImageDetail(ImageView):
    """Base of the calls on ``/image/v2/images/{id}``."""

    parser_classes = [image_schemas.PatchParser, image_schemas.OldPatchParser]

    def fault(self, error: Exception) -> Response:
        """Add the supported content types to the error for an unsupported content type."""
        if not isinstance(error, UnsupportedMediaType):
            return super().fault(error)
        response = super().fault(error)
        response.data["message"] = f"Image PATCH expects Content-Type one of: {image_schemas.PATCHES}"
        response["Accept-Patch"] = image_schemas.PATCHES
        return response


def _changes(view: ImageView) -> Values:
    old = str(view.request.content_type).partition(";")[0].strip().lower() == image_schemas.OldPatchParser.media_type
    return {"changes": image_schemas.read_patch(view.request.data, old=old)}


def _image(view: ImageView, image: Image) -> Json:
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
    schemas={"PATCH": image_schemas.IMAGE_PATCH},
)


def _member(view: Any, row: Any) -> Json:
    return member_shape(row)


MEMBERS = parts(
    ImageView,
    "images/{image_id}",
    {
        "GET /members": Call(
            selectors.members_for,
            "get_members",
            "List the members: all for the image's owner; a member sees only itself.",
            shape=lambda view, rows: {"members": [*map(member_shape, rows)], "schema": "/v2/schemas/members"},
        ),
        "POST /members": Call(
            services.add_member,
            "add_member",
            "Share the image with a project.",
            body=image_schemas.MEMBER_CREATE,
            shape=_member,
        ),
        "GET /members/{member_id}": Call(selectors.member_for, "get_member", shape=_member),
        "PUT /members/{member_id}": Call(
            services.set_member_status,
            "modify_member",
            "Accept or reject the image.",
            body=image_schemas.MEMBER_UPDATE,
            shape=_member,
        ),
        "DELETE /members/{member_id}": Call(
            services.remove_member, "delete_member", "Stop sharing the image with the project."
        ),
        "PUT /tags/{tag}": Call(partial(services.set_tag, present=True), "modify_image"),
        "DELETE /tags/{tag}": Call(partial(services.set_tag, present=False), "modify_image"),
        "POST /actions/deactivate": Call(
            services.deactivate, "deactivate", "Deactivate an image: only operators can read its data."
        ),
        "POST /actions/reactivate": Call(
            services.reactivate, "reactivate", "Reactivate an image, so that its data can be read again."
        ),
    },
)


HASHES = ["sha1", "sha256", "sha512", "md5"]
LOCATION: Schema = {
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


def _add_location(context: RequestContext, image_id: str, body: Json) -> None:
    """Refuse: the store holds only uploaded and imported data, and no references to other locations."""
    image = selectors.image_for(context, image_id)
    if image.status != Image.Status.QUEUED:
        raise ConflictError(f"It's not allowed to add locations if image status is {image.status}.")
    raise ForbiddenError("The store of this cloud has no external locations: import the image by its URL.")


LOCATIONS = parts(
    ImageView,
    "images/{image_id}/locations",
    {
        "GET": Call(
            selectors.locations_for,
            "fetch_image_location",
            "List the location of the data; empty if there is none.",
            shape=lambda view, found: found,
        ),
        "POST": Call(
            _add_location,
            "add_image_location",
            "Refused: the store holds only uploaded and imported data, and no references to other locations.",
            body=LOCATION,
            status=201,
        ),
    },
)
