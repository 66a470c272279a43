"""``/v3/roles``: roles, which policy rules check."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.domain_scoped import DomainScopedView
from portal.api.identity.fields import further
from portal.api.identity.roles import schemas, shapes
from portal.api.identity.short_lists import listed, query_of
from provisioning.common.errors import InvalidInputError
from provisioning.identity.models import Domain, Role
from provisioning.identity.selectors.lookups import by_id
from provisioning.identity.selectors.role_lookups import roles
from provisioning.identity.services.roles import create_role, delete_role, update_role

_KNOWN = frozenset({"name", "description", "domain_id", "options"})


def _values(body: dict[str, Any]) -> dict[str, Any]:
    """Convert the validated body; a null description becomes empty."""
    given = body["role"]
    known = {name: value for name, value in given.items() if name in _KNOWN}
    others = further(given, dict.fromkeys((*_KNOWN, "id")))
    if "description" in known:
        known["description"] = known["description"] or ""
    return known | ({"extra": others} if others else {})


_OF_DOMAIN = {
    "identity:list_roles": "identity:list_domain_roles",
    "identity:get_role": "identity:get_domain_role",
    "identity:create_role": "identity:create_domain_role",
    "identity:update_role": "identity:update_domain_role",
    "identity:delete_role": "identity:delete_domain_role",
}
"""Rule → the rule for roles of a domain."""


class RolesView(ServiceView):
    """``/v3/roles``."""

    rules = {"GET": "identity:list_roles", "POST": "identity:create_role"}
    schemas: ClassVar[Schemas] = {"POST": schemas.CREATE}
    queries: ClassVar[Schemas] = {"GET": query_of("name")}

    def rule_of(self, method: str) -> str | None:
        rule = super().rule_of(method)
        return _OF_DOMAIN.get(rule or "") if self._asked_domain() is not None else rule

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the new role or the list; global roles can be read from every domain."""
        domain_id = self._asked_domain()
        if domain_id is None and self.request.method != "POST":
            return {"domain_id": self.context.domain_id}
        return {"domain_id": domain_id}

    def _asked_domain(self) -> Any:
        if self.request.method != "POST":
            return self.request.query_params.get("domain_id")
        body = self.request.data
        role = body.get("role") if isinstance(body, dict) else None
        return role.get("domain_id") if isinstance(role, dict) else None

    def get(self, request: Request) -> Response:
        """List the global roles, or the roles of the domain in the query."""
        found = roles(domain_id=request.query_params.get("domain_id"))
        items = (shapes.role(request, role) for role in found)
        return Response(listed(request, "roles", items, filters=("name",)))

    def post(self, request: Request) -> Response:
        """Create a role (201)."""
        values = _values(self.checked_body())
        domain_id = values.pop("domain_id", None)
        domain = by_id(Domain, domain_id) if domain_id is not None else None
        if domain_id is not None and domain is None:
            raise InvalidInputError(f"Could not find domain: {domain_id[:64]}.", field="domain_id")
        made = create_role(values.pop("name"), domain=domain, **values)
        return Response({"role": shapes.role(request, made)}, status=201)


class RoleView(DomainScopedView):
    """``/v3/roles/{id}``."""

    rules = {
        "GET": "identity:get_role",
        "PATCH": "identity:update_role",
        "DELETE": "identity:delete_role",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.UPDATE}

    def rule_of(self, method: str) -> str | None:
        rule = super().rule_of(method)
        return _OF_DOMAIN.get(rule or "") if self.addressed["role_id"].domain_id is not None else rule

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the role; global roles can be read from every domain."""
        found = self.addressed["role_id"]
        if found.record is not None and found.domain_id is None and self.request.method in {"GET", "HEAD"}:
            name = found.record.name if isinstance(found.record, Role) else None
            return {"domain_id": self.context.domain_id, "target.role.name": name}
        return {"domain_id": found.domain_id}

    def get(self, request: Request, role_id: str) -> Response:
        return Response({"role": shapes.role(request, self.role())})

    def patch(self, request: Request, role_id: str) -> Response:
        """Update a role; its domain cannot be changed."""
        values = _values(self.checked_body())
        if values.pop("domain_id", self.role().domain_id) != self.role().domain_id:
            raise InvalidInputError("The domain of a role cannot be changed.", field="domain_id")
        changed = update_role(self.role(), **values)
        return Response({"role": shapes.role(request, changed)})

    def delete(self, request: Request, role_id: str) -> Response:
        """Delete a role with its assignments."""
        delete_role(self.role())
        return Response(status=204)
