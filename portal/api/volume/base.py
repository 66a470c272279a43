"""Base of the Block Storage views."""

import uuid
from typing import Any, ClassVar

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import links
from portal.api.common.requests import Microversions
from portal.api.common.views import ServiceView
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import NOBODY, read_id

MICROVERSIONS = Microversions("volume", (3, 0), (3, 71))
"""The supported range; fields appear and disappear as in the reference, up to 3.71."""


class VolumeView(ServiceView):
    """A resource of the Block Storage API.

    Its path may contain the caller's project, ``/v3/{project_id}/volumes``; the routes remove it.
    """

    service: ClassVar[str] = "volume"
    microversions: ClassVar[Microversions | None] = MICROVERSIONS
    url_project: str | None = None

    def dispatch(self, request: HttpRequest, *args: Any, url_project: str | None = None, **kwargs: Any) -> Any:
        """Store the project of the path; handlers are called without it."""
        self.url_project = url_project
        return super().dispatch(request, *args, **kwargs)

    def check_rule(self, request: Request) -> None:
        """Reject the path of another project, as Cinder does, then check the policy; a path with NUL characters
        is 404.
        """
        if self.url_project is not None and read_id(self.url_project) != self.context.project_id:
            raise InvalidInputError("Malformed request url")
        super().check_rule(request)
        if "\0" in request.path:
            raise NotFoundError("The resource could not be found.")

    @property
    def own_project(self) -> uuid.UUID:
        return self.context.project_id or NOBODY

    @property
    def base(self) -> str:
        """The endpoint's address, with the project if the request's path contains one."""
        whole = links.endpoint(self.request, "volume")
        return whole if self.url_project is None else f"{whole}/{self.url_project}"

    def links(self, path: str) -> list[dict[str, str]]:
        """Return the links of the object at ``path``, ``volumes/{id}``."""
        project = "" if self.url_project is None else f"/{self.url_project}"
        root = links.endpoint(self.request, "volume").removesuffix("/v3")
        return [
            {"rel": "self", "href": f"{self.base}/{path}"},
            {"rel": "bookmark", "href": f"{root}{project}/{path}"},
        ]

    def accepted(self) -> Response:
        return Response(status=202)
