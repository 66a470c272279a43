"""Security groups as the Compute API showed them up to 2.35."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.proxies.base import ProxyView
from portal.api.compute.proxies.table import limited
from portal.api.compute.schemas import last
from portal.api.compute.servers.security_group_shapes import REMOTE, security_group
from provisioning.common.errors import NotFoundError
from provisioning.identity import policy
from provisioning.network import selectors

LARGEST = 1000
"""Groups of one answer."""


class SecurityGroupsView(ProxyView):
    """``GET /os-security-groups``."""

    rules = {"GET": "os_compute_api:os-security-groups:get"}
    queries = {"GET": limited}

    def get(self, request: Request) -> Response:
        """The project's groups by name; an operator's ``all_tenants`` shows every project's."""
        policy.enforce(self.context, "get_security_group")
        query = self.checked_query()
        groups = selectors.security_groups_for(self.context, all_projects="all_tenants" in query)
        first, most = int(last(query, "offset") or 0), int(last(query, "limit") or LARGEST)
        rows = groups.prefetch_related(REMOTE).order_by("project_id", "name", "id")
        found = rows[first : first + min(most or LARGEST, LARGEST)]
        return Response({"security_groups": [security_group(group) for group in found]})


class SecurityGroupView(ProxyView):
    """``GET /os-security-groups/{id}``."""

    rules = {"GET": "os_compute_api:os-security-groups:show"}

    def get(self, request: Request, security_group_id: str) -> Response:
        policy.enforce(self.context, "get_security_group")
        try:
            group = selectors.security_group_for(self.context, security_group_id, all_projects=True)
        except NotFoundError as error:
            raise NotFoundError(f"Security group {security_group_id[:64]} not found.") from error
        return Response({"security_group": security_group(group)})
