"""Parts of images: members (the projects that an image is shared with), tags and the deactivation."""

from functools import partial
from typing import Any

from portal.api.frame.parts import Call, parts
from portal.api.image.base import ImageView
from portal.api.image.images import shapes
from portal.api.image.images.schemas import MEMBER_CREATE, MEMBER_UPDATE
from provisioning.images import selectors, services


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
