"""Projects that may use a private flavor (Compute API reference, "Flavors access")."""

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.quotas.views import known_project
from portal.api.compute.schemas import Schema
from portal.api.frame.schemas import inner
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.compute import selectors
from provisioning.compute.services.flavor_access import add_flavor_access, remove_flavor_access
from provisioning.identity import policy

_TENANT = inner({"tenant": {"type": "string", "minLength": 1, "maxLength": 255}}, ("tenant",))
_ACTION: Schema = inner({"addTenantAccess": _TENANT, "removeTenantAccess": _TENANT}) | {
    "minProperties": 1,
    "maxProperties": 1,
}


class FlavorAccessView(ComputeView):
    """``GET /flavors/{id}/os-flavor-access``."""

    rules = {"GET": "os_compute_api:os-flavor-access"}

    def get(self, request: Request, flavor_id: str) -> Response:
        """List the projects that may use a private flavor."""
        return Response(access_list(self, flavor_id))


class FlavorActionView(ComputeView):
    """``POST /flavors/{id}/action``: ``addTenantAccess``, ``removeTenantAccess``."""

    rules = {"POST": "os_compute_api:os-flavor-access:add_tenant_access"}
    action_rules = {"removeTenantAccess": "os_compute_api:os-flavor-access:remove_tenant_access"}
    schemas = {"POST": _ACTION}

    def post(self, request: Request, flavor_id: str) -> Response:
        """Grant or revoke a project's access to a flavor; returns the updated list."""
        [(name, given)] = self.checked_body().items()
        if name == "addTenantAccess":
            project = known_project(self.context, given["tenant"])
            add_flavor_access(self.context, flavor_id, project, private_only=self.microversion >= (2, 7))
        else:
            policy.enforce(self.context, self.action_rules[name])
            remove_flavor_access(self.context, flavor_id, read_id(given["tenant"]) or given["tenant"])
        return Response(access_list(self, flavor_id, public=True))


def access_list(view: ComputeView, flavor_id: str, *, public: bool = False) -> dict[str, Any]:
    """Return the access list of a flavor. Raises NotFoundError for a public flavor, unless ``public``."""
    flavor, projects = selectors.flavor_access_for(view.context, flavor_id)
    if flavor.is_public and not public:
        raise NotFoundError("Access list not available for public flavors.")
    return {"flavor_access": [_entry(flavor.flavorid, project) for project in projects]}


def _entry(flavorid: str, project: uuid.UUID) -> dict[str, str]:
    return {"flavor_id": flavorid, "tenant_id": project.hex}
