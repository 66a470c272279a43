"""Members, the projects that an image is shared with: ``/image/v2/images/{id}/members``."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.image.base import ImageView
from portal.api.image.images import shapes
from portal.api.image.images.schemas import MEMBER_CREATE, MEMBER_UPDATE
from provisioning.images import selectors, services


class Members(ImageView):
    """``/image/v2/images/{id}/members``."""

    rules = {"GET": "get_members", "POST": "add_member"}
    schemas: ClassVar[Schemas] = {"POST": MEMBER_CREATE}

    def get(self, request: Request, image_id: str) -> Response:
        """List the members: all for the image's owner; a member sees only itself."""
        rows = selectors.members_for(self.context, image_id)
        return Response({"members": [shapes.member(row) for row in rows], "schema": "/v2/schemas/members"})

    def post(self, request: Request, image_id: str) -> Response:
        """Share the image with a project."""
        body = self.checked_body()
        return Response(shapes.member(services.add_member(self.context, image_id, body["member"])))


class MemberDetail(ImageView):
    """``/image/v2/images/{id}/members/{member}``."""

    rules = {"GET": "get_member", "PUT": "modify_member", "DELETE": "delete_member"}
    schemas: ClassVar[Schemas] = {"PUT": MEMBER_UPDATE}

    def get(self, request: Request, image_id: str, member_id: str) -> Response:
        return Response(shapes.member(selectors.member_for(self.context, image_id, member_id)))

    def put(self, request: Request, image_id: str, member_id: str) -> Response:
        """Accept or reject the image."""
        body = self.checked_body()
        row = services.set_member_status(self.context, image_id, member_id, body["status"])
        return Response(shapes.member(row))

    def delete(self, request: Request, image_id: str, member_id: str) -> Response:
        """Stop sharing the image with the project."""
        services.remove_member(self.context, image_id, member_id)
        return Response(status=204)
