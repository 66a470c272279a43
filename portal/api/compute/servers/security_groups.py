"""``GET /servers/{id}/os-security-groups``: the groups of a server's ports, in nova-network's format."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.servers.security_group_shapes import REMOTE, security_group
from provisioning.compute import selectors
from provisioning.network import selectors as network


class SecurityGroupsView(ComputeView):
    """``GET /servers/{id}/os-security-groups``."""

    rules = {"GET": "os_compute_api:os-security-groups:list"}

    def get(self, request: Request, server_id: str) -> Response:
        """List the groups of the server's ports."""
        instance = selectors.instance_for(self.context, server_id)
        members = {ident for ref in network.port_refs(instance.id) for ident in ref.security_group_ids}
        groups = network.security_groups_for(self.context, all_projects=True).filter(id__in=members)
        shown = groups.prefetch_related(REMOTE).order_by("name", "id")
        return Response({"security_groups": [security_group(group) for group in shown]})
