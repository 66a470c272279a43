"""Extra specs and access lists of flavors (Compute API reference, "Flavors extra-specs", "Flavors access")."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute import flavor_schemas
from portal.api.compute.quota_sets import known_project
from portal.api.compute.views import ComputeView
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.compute import selectors
from provisioning.compute.services.flavor_access import add_flavor_access, remove_flavor_access
from provisioning.compute.services.flavor_specs import delete_extra_spec, merge_extra_specs, no_such_spec
from provisioning.identity import policy

_CHECKED = (2, 86)
"""From this version on extra specs in known namespaces are checked."""


class ExtraSpecsView(ComputeView):
    """``GET`` and ``POST /flavors/{id}/os-extra_specs``."""

    rules = {"GET": "compute:flavor_extra_specs:list", "POST": "compute:flavor_extra_specs:create"}
    schemas = {"POST": flavor_schemas.specs}

    def get(self, request: Request, flavor_id: str) -> Response:
        """The extra specs of a flavor."""
        return Response({"extra_specs": selectors.flavor_for(self.context, flavor_id, disabled=True).extra_specs})

    def post(self, request: Request, flavor_id: str) -> Response:
        """Add extra specs, or change some; answers with the body as it was sent."""
        given = self.checked_body()
        merge_extra_specs(
            self.context,
            flavor_id,
            given["extra_specs"],
            rule=self.rules["POST"],
            known_only=self.microversion >= _CHECKED,
        )
        return Response(given)


class ExtraSpecView(ComputeView):
    """``GET``, ``PUT`` and ``DELETE /flavors/{id}/os-extra_specs/{key}``."""

    rules = {
        "GET": "compute:flavor_extra_specs:show",
        "PUT": "compute:flavor_extra_specs:update",
        "DELETE": "compute:flavor_extra_specs:delete",
    }
    schemas = {"PUT": flavor_schemas.spec}

    def get(self, request: Request, flavor_id: str, key: str) -> Response:
        """One extra spec."""
        flavor = selectors.flavor_for(self.context, flavor_id, disabled=True)
        if key not in flavor.extra_specs:
            raise no_such_spec(flavor, key)
        return Response({key: flavor.extra_specs[key]})

    def put(self, request: Request, flavor_id: str, key: str) -> Response:
        """Set one extra spec; the body names the same key as the address."""
        given = self.checked_body()
        if key not in given:
            raise InvalidInputError("Request body and URI mismatch", field=key[:64])
        merge_extra_specs(
            self.context, flavor_id, given, rule=self.rules["PUT"], known_only=self.microversion >= _CHECKED
        )
        return Response(given)

    def delete(self, request: Request, flavor_id: str, key: str) -> Response:
        """Remove one extra spec."""
        delete_extra_spec(self.context, flavor_id, key)
        return Response(status=200)


class FlavorAccessView(ComputeView):
    """``GET /flavors/{id}/os-flavor-access``."""

    rules = {"GET": "compute:flavor_access:list"}

    def get(self, request: Request, flavor_id: str) -> Response:
        """The projects that see a private flavor."""
        return Response(access_list(self, flavor_id))


class FlavorActionView(ComputeView):
    """``POST /flavors/{id}/action``: ``addTenantAccess``, ``removeTenantAccess``."""

    rules = {"POST": "compute:flavor_access:add"}
    schemas = {"POST": flavor_schemas.action}

    def post(self, request: Request, flavor_id: str) -> Response:
        """Let a project see a flavor, or hide it from one; answers with the list as it is then."""
        [(name, given)] = self.checked_body().items()
        if name == "addTenantAccess":
            project = known_project(self.context, given["tenant"])
            add_flavor_access(self.context, flavor_id, project, private_only=self.microversion >= (2, 7))
        else:
            policy.enforce(self.context, "compute:flavor_access:remove")
            remove_flavor_access(self.context, flavor_id, read_id(given["tenant"]) or given["tenant"])
        return Response(access_list(self, flavor_id, public=True))


def access_list(view: ComputeView, flavor_id: str, *, public: bool = False) -> dict[str, Any]:
    """Return the list of a flavor; a public one has none to be looked at."""
    flavor, projects = selectors.flavor_access_for(view.context, flavor_id)
    if flavor.is_public and not public:
        raise NotFoundError("Access list not available for public flavors.")
    return {"flavor_access": [_entry(flavor.flavorid, project) for project in projects]}


def _entry(flavorid: str, project: uuid.UUID) -> dict[str, str]:
    return {"flavor_id": flavorid, "tenant_id": project.hex}
