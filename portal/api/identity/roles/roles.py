"""``/v3/roles``: roles, which policy rules check."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from portal.api.common.views import ServiceView
from portal.api.identity.dialect import (
    IDENTITY,
    Attribute,
    DetailView,
    InMemory,
    ListView,
    Operation,
    Resource,
    Values,
    routes,
)
from portal.api.identity.dialect.kinds import IMMUTABLE, KEY, KEY_OR_NULL, LONG_NAME, TEXT
from portal.api.identity.roles.domain_scoped import DomainScopedView
from provisioning.common.errors import InvalidInputError
from provisioning.identity.models import Domain, Role
from provisioning.identity.selectors.lookups import by_id, existing
from provisioning.identity.selectors.role_lookups import roles
from provisioning.identity.services.roles import create_role, delete_role, is_immutable, update_role


def _create(view: ServiceView, values: Values) -> Role:
    domain_id = values.pop("domain_id", None)
    domain = by_id(Domain, domain_id) if domain_id is not None else None
    if domain_id is not None and domain is None:
        raise InvalidInputError(f"Could not find domain: {domain_id[:64]}.", field="domain_id")
    return create_role(values.pop("name"), domain=domain, **values)


def _options(role: Role) -> dict[str, Any]:
    """Return the options; built-in roles are shown as immutable, whatever their stored options."""
    return {**role.options, "immutable": True} if is_immutable(role) else role.options


ROLE = Resource(
    name="role",
    list=Operation(roles, "identity:list_roles", "List the global roles, or the roles of the domain in the query."),
    show=Operation(partial(existing, Role), "identity:get_role"),
    create=Operation(_create, "identity:create_role", "Create a role (201)."),
    update=Operation(
        lambda view, role, values: update_role(role, **values),
        "identity:update_role",
        "Update a role; its domain cannot be changed.",
    ),
    delete=Operation(
        lambda view, role: delete_role(role), "identity:delete_role", "Delete a role with its assignments."
    ),
    attributes=(
        Attribute("id", KEY),
        Attribute("name", LONG_NAME, post=True, put=True, required=True),
        Attribute("domain_id", KEY_OR_NULL, post=True, fixed=InvalidInputError),
        Attribute("description", TEXT, post=True, put=True),
        Attribute("options", IMMUTABLE, post=True, put=True, show=_options),
    ),
    lists=InMemory(("name",)),
    extra=64,
)
_OF_DOMAIN = {
    "identity:list_roles": "identity:list_domain_roles",
    "identity:get_role": "identity:get_domain_role",
    "identity:create_role": "identity:create_domain_role",
    "identity:update_role": "identity:update_domain_role",
    "identity:delete_role": "identity:delete_domain_role",
}
"""Rule → the rule for roles of a domain."""


class RolesView(ListView):
    """``/v3/roles``."""

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
        return self.claimed("role", "domain_id")

    def rows(self) -> Sequence[Role]:
        found: Sequence[Role] = self.resource.list.call(domain_id=self.request.query_params.get("domain_id"))
        return found


class RoleView(DomainScopedView, DetailView):
    """``/v3/roles/{id}``."""

    ids = DetailView.ids

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

    @property
    def record(self) -> Role:
        """The role, which the policy check has looked up."""
        return self.role()


ROUTES = routes(ROLE, dialect=replace(IDENTITY, lists=RolesView, details=RoleView))
