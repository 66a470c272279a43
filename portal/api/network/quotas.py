"""Quotas of the Networking API (Networking API reference, "Quotas extension")."""

import uuid
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.network.base import NetworkView
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.common.numbers import MAX_INTEGER
from provisioning.network.errors import TenantQuotaNotFoundError
from provisioning.quotas import selectors
from provisioning.quotas.services.limits import reset_limits, set_limits

NAMES = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "floatingip": "floatingips",
    "security_group": "security_groups",
    "security_group_rule": "security_group_rules",
    "subnetpool": "subnetpools",
    "rbac_policy": "rbac_policies",
    "address_group": "address_groups",
    "address_scope": "address_scopes",
}
"""Name in the API → resource."""
_LIMIT = {"type": ["integer", "string"], "pattern": r"^-?[0-9]{1,10}\Z", "minimum": -1, "maximum": MAX_INTEGER}
_QUOTA = {
    "type": "object",
    "properties": {
        "quota": {
            "type": "object",
            "properties": {
                **dict.fromkeys(NAMES, _LIMIT),
                "force": {"type": "boolean"},
                "check_limit": {"type": "boolean"},
            },
            "additionalProperties": False,
        }
    },
    "required": ["quota"],
    "additionalProperties": False,
}


class QuotaView(NetworkView):
    """Base of the quota views."""

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self.kwargs.get("project_id", "")}

    def project(self, project_id: str) -> uuid.UUID:
        """Return the id of a project, which need not exist in Identity. Raises NotFoundError for an invalid id."""
        project = read_id(project_id)
        if project is None:
            raise NotFoundError(f"Project {project_id[:64]} could not be found.")
        return project


class Quotas(QuotaView):
    """``GET /network/v2.0/quotas``."""

    rules = {"GET": "novella:get_quotas"}

    def get(self, request: Request) -> Response:
        """List the projects with quotas of their own."""
        found = selectors.projects_with_limits(NAMES.values())
        return Response({"quotas": [_limits_of(project) | _project(project) for project in found]})


class QuotaDetail(QuotaView):
    """``GET``, ``PUT`` and ``DELETE /network/v2.0/quotas/{project}``."""

    rules = {"GET": "get_quota", "PUT": "update_quota", "DELETE": "delete_quota"}
    schemas: ClassVar[Schemas] = {"PUT": _QUOTA}

    def get(self, request: Request, project_id: str) -> Response:
        return Response({"quota": _limits_of(self.project(project_id))})

    def put(self, request: Request, project_id: str) -> Response:
        """Update limits; one below the usage is refused unless ``force`` is true or ``check_limit`` is false."""
        asked = self.checked_body()["quota"]
        project = self.project(project_id)
        force = asked.pop("force", False) or not asked.pop("check_limit", True)
        limits: dict[str, int | None] = {NAMES[name]: int(limit) for name, limit in asked.items() if name in NAMES}
        set_limits(project, limits, force=force)
        return Response({"quota": _limits_of(project)})

    def delete(self, request: Request, project_id: str) -> Response:
        """Reset the project's limits to the defaults; 404 if it has no limits of its own."""
        if not reset_limits(self.project(project_id), NAMES.values()):
            raise TenantQuotaNotFoundError(f"Quota for tenant {project_id[:64]} could not be found.")
        return Response(status=204)


class QuotaDefaults(QuotaView):
    """``GET /network/v2.0/quotas/{project}/default``."""

    rules = {"GET": "get_quota"}

    def policy_target(self) -> dict[str, object]:
        """Return no target: the defaults are the same for every project."""
        return {}

    def get(self, request: Request, project_id: str) -> Response:
        """Show the default limits."""
        self.project(project_id)
        defaults = selectors.default_limits()
        return Response({"quota": {name: defaults[resource] for name, resource in NAMES.items()}})


class QuotaUsage(QuotaView):
    """``GET /network/v2.0/quotas/{project}/details``."""

    rules = {"GET": "get_quota"}

    def get(self, request: Request, project_id: str) -> Response:
        """Show limits, usage and reservations."""
        found = selectors.detail_of(self.project(project_id))
        shape: dict[str, Any] = {
            name: {
                "limit": found[resource].limit,
                "used": found[resource].in_use,
                "reserved": found[resource].reserved,
            }
            for name, resource in NAMES.items()
        }
        return Response({"quota": shape})


class QuotaTenant(QuotaView):
    """``GET /network/v2.0/quotas/tenant`` and ``/quotas/project``."""

    rules = {"GET": "get_quota"}

    def policy_target(self) -> dict[str, object]:
        """Return no target: the response has only the caller's own project."""
        return {}

    def get(self, request: Request) -> Response:
        """Show the caller's project, whose quotas apply."""
        if self.context.project_id is None:
            raise InvalidInputError("Quotas belong to a project: use a token that is scoped to one.")
        return Response({"tenant": _project(self.context.project_id)})


def _project(project: uuid.UUID) -> dict[str, Any]:
    return {"project_id": project.hex, "tenant_id": project.hex}


def _limits_of(project: uuid.UUID) -> dict[str, Any]:
    limits = selectors.limits_of(project)
    return {name: limits[resource] for name, resource in NAMES.items()}
