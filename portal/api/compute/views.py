"""The base of the Compute views."""

from __future__ import annotations

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import links
from portal.api.common.microversions import Microversions
from portal.api.common.views import ServiceView
from portal.api.compute.server_shapes import Around, Look, detail
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors
from provisioning.compute.models import Instance
from provisioning.network import selectors as network

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

    def around(self, instances: list[Instance]) -> Around:
        """Fetch what a page of servers shows beside the servers: three queries whatever its size."""
        bookmark = self.base.rsplit("/", 1)[0]
        if not instances:
            return Around(self.base, bookmark)
        ids = [instance.id for instance in instances]
        return Around(
            base=self.base,
            bookmark=bookmark,
            addresses=network.addresses_of(ids),
            security_groups=network.security_group_names_of(ids),
            faults=selectors.fault_of(instances),
        )

    def look(self, *, groups: bool = True, extended: bool = True) -> Look:
        """How much of servers this caller sees at this microversion."""
        return Look(
            self.microversion,
            host=self.allows("compute:servers:show:host"),
            host_status=self.allows("compute:servers:show:host_status"),
            groups=groups,
            extended=extended,
        )

    def shown(self, instance: Instance) -> Response:
        """Answer with one server whole."""
        return Response({"server": detail(instance, self.around([instance]), self.look())})

    def changed(self, instance: Instance) -> Response:
        """Answer a change (update, rebuild) with the server; it is shown whole from 2.75 on."""
        look = self.look(extended=self.microversion >= (2, 75))
        return Response({"server": detail(instance, self.around([instance]), look)})
