"""The base of the Compute views."""

from typing import ClassVar

from rest_framework.request import Request

from portal.api.common import links
from portal.api.common.microversions import Microversions
from portal.api.common.views import ServiceView
from provisioning.common.errors import NotFoundError

MICROVERSIONS = Microversions("compute", (2, 1), (2, 96), legacy_header="X-OpenStack-Nova-API-Version")
"""The range that is implemented: every field appears and disappears where the reference says, up to 2.96."""


class ComputeView(ServiceView):
    """A resource of the Compute API."""

    service: ClassVar[str] = "compute"
    microversions: ClassVar[Microversions | None] = MICROVERSIONS

    def check_rule(self, request: Request) -> None:
        """Ask the policy; names that no database looks up are nobody's."""
        super().check_rule(request)
        if "\0" in request.path:
            raise NotFoundError("The resource could not be found.")

    @property
    def base(self) -> str:
        """The endpoint's address, ``…/compute/v2.1``."""
        return links.endpoint(self.request, "compute")
