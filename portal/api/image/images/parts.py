"""Parts of images: members (the projects that an image is shared with), tags, the deactivation and locations."""

from functools import partial
from typing import Any

from portal.api.frame.parts import Call, parts
from portal.api.image.dialect import ImageView
from portal.api.image.images import shapes
from portal.api.image.images.schemas import MEMBER_CREATE, MEMBER_UPDATE
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.images import selectors, services
from provisioning.images.models import Image


def _member(view: Any, row: Any) -> shapes.Shape:
    return shapes.member(row)


PARTS = parts(
    ImageView,
    "images/{image_id}",
    {
        "GET /members": Call(
            selectors.members_for,
            "get_members",
            "List the members: all for the image's owner; a member sees only itself.",
            shape=lambda view, rows: {"members": [*map(shapes.member, rows)], "schema": "/v2/schemas/members"},
        ),
        "POST /members": Call(
            services.add_member, "add_member", "Share the image with a project.", body=MEMBER_CREATE, shape=_member
        ),
        "GET /members/{member_id}": Call(selectors.member_for, "get_member", shape=_member),
        "PUT /members/{member_id}": Call(
            services.set_member_status,
            "modify_member",
            "Accept or reject the image.",
            body=MEMBER_UPDATE,
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
LOCATION: dict[str, Any] = {
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


def _add(context: RequestContext, image_id: str, body: dict[str, Any]) -> None:
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
            _add,
            "add_image_location",
            "Refused: the store holds only uploaded and imported data, and no references to other locations.",
            body=LOCATION,
            status=201,
        ),
    },
)
