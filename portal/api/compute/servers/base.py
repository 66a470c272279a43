"""Base of views that return servers."""

from rest_framework.response import Response

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.servers.shapes import Related, VisibleFields, detail
from provisioning.compute import selectors
from provisioning.compute.models import Instance
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.network import selectors as network


class ServerView(ComputeView):
    """Shows the fields of servers that the caller may see."""

    def related(self, instances: list[Instance]) -> Related:
        """Fetch the related rows of a page of servers, with four queries for any number of servers."""
        bookmark = self.bookmark
        if not instances:
            return Related(self.base, bookmark)
        ids = [instance.id for instance in instances]
        return Related(
            base=self.base,
            bookmark=bookmark,
            addresses=network.addresses_of(ids),
            security_groups=network.security_group_names_of(ids),
            faults=selectors.fault_of(instances),
            volumes=volumes_shown(ids),
        )

    def visible_fields(self, *, groups: bool = True, extended: bool = True) -> VisibleFields:
        """Return the fields of servers that this caller sees at this microversion."""
        return VisibleFields(
            self.microversion,
            host=self.allows("os_compute_api:os-extended-server-attributes"),
            host_status=self.allows("os_compute_api:servers:show:host_status"),
            groups=groups,
            extended=extended,
        )

    def shown(self, instance: Instance) -> Response:
        return Response({"server": detail(instance, self.related([instance]), self.visible_fields())})

    def changed(self, instance: Instance) -> Response:
        """Answer an update or rebuild with the server, in full from 2.75 on."""
        visible = self.visible_fields(extended=self.microversion >= (2, 75))
        return Response({"server": detail(instance, self.related([instance]), visible)})
