"""Base of the Compute views."""

from typing import Any, ClassVar

from django.http import HttpRequest
from rest_framework.request import Request

from portal.api.common import links
from portal.api.common.microversions import Microversions
from portal.api.common.views import ServiceView
from portal.api.frame.lists import Pages
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id

MICROVERSIONS = Microversions("compute", (2, 1), (2, 96), legacy_header="X-OpenStack-Nova-API-Version")
"""The supported range; fields appear and disappear as in the reference, up to 2.96."""


LIST_PAGES = Pages(zero_is_none=True)
"""Lists with a marker."""
WITH_OFFSET = Pages()
"""Lists with an offset."""


class ComputeView(ServiceView):
    """A resource of the Compute API.

    Its path may contain the caller's project, ``/v2.1/{project_id}/servers``; the routes remove it.
    """

    service: ClassVar[str] = "compute"
    microversions: ClassVar[Microversions | None] = MICROVERSIONS
    url_project: str | None = None

    def dispatch(self, request: HttpRequest, *args: Any, url_project: str | None = None, **kwargs: Any) -> Any:
        """Store the project of the path; handlers are called without it."""
        self.url_project = url_project
        return super().dispatch(request, *args, **kwargs)

    def check_rule(self, request: Request) -> None:
        """Reject the path of another project, as Nova does, then check the policy; a path with NUL characters is
        404.
        """
        if self.url_project is not None and read_id(self.url_project) != self.context.project_id:
            mine = self.context.project_id.hex if self.context.project_id else None
            raise InvalidInputError(
                f"Malformed request URL: URL's project_id '{self.url_project}' doesn't match Context's"
                f" project_id '{mine}'"
            )
        super().check_rule(request)
        if "\0" in request.path:
            raise NotFoundError("The resource could not be found.")

    @property
    def base(self) -> str:
        """The endpoint's address, with the project if the request's path contains one."""
        return links.endpoint(self.request, "compute") + self._project

    @property
    def bookmark(self) -> str:
        """The service's address without a version, for bookmark links."""
        return links.endpoint(self.request, "compute").rsplit("/", 1)[0] + self._project

    @property
    def _project(self) -> str:
        return "" if self.url_project is None else f"/{self.url_project}"
