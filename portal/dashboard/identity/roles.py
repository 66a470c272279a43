"""Roles: the list with what each implies, and what is done to them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.identity import base
from portal.dashboard.identity.base import RolePage
from portal.dashboard.identity.frames import FormPage, ListPage, QuestionPage
from provisioning.common.errors import NovellaError
from provisioning.identity import policy, services
from provisioning.identity import selectors as identity
from provisioning.identity.models import Role
from provisioning.identity.selectors import panels
from provisioning.identity.services import onboarding
from provisioning.identity.services.roles import is_immutable


class RoleList(ListPage):
    """All roles."""

    section = "roles"
    kind = "role"
    rule = "identity:roles:list"
    template = "dashboard/identity/roles.html"

    def find(self, wanted: panels.Wanted) -> panels.Found[Any]:
        """Find roles."""
        return panels.find_roles(wanted)

    def rows(self, found: Sequence[Any]) -> Sequence[Any]:
        """Show each with what it implies."""
        return [(role, sorted(row.implied.name for row in role.implies.all()), is_immutable(role)) for role in found]

    def further(self) -> dict[str, Any]:
        """Add what may be done here."""
        return {
            "can_update": self.allows("identity:roles:update"),
            "can_delete": self.allows("identity:roles:delete"),
            "can_imply": self.allows("identity:implied_roles:create"),
        }


class RoleCreate(FormPage):
    """A new role."""

    section = "roles"
    kind = "role"
    rule = "identity:roles:create"
    template = "dashboard/identity/role_form.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        return self.show({})

    def save(self, data: QueryDict) -> HttpResponse:
        """Make it, of the whole cloud or of one domain."""
        domain = base.domain_of(data, "") if base.text_of(data, "domain") else None
        role = services.create_role(
            base.text_of(data, "name"), domain=domain, description=base.text_of(data, "description")
        )
        return self.go("dashboard:roles", said=f"{role.name} can be given now.")

    def choices(self) -> dict[str, Any]:
        """Offer the domains."""
        return {"domains": panels.all_domains()}


class RoleEdit(FormPage, RolePage):
    """A role's name and description."""

    rule = "identity:roles:update"
    template = "dashboard/identity/role_form.html"

    def get(self, request: HttpRequest, role_id: uuid.UUID) -> HttpResponse:
        """Show the form."""
        return self.show({"name": self.role.name, "description": self.role.description})

    def save(self, data: QueryDict) -> HttpResponse:
        """Change it."""
        services.update_role(self.role, name=base.text_of(data, "name"), description=base.text_of(data, "description"))
        return self.go("dashboard:roles", said="Saved.")


class RoleImplications(RolePage):
    """What a role brings with it."""

    rule = "identity:implied_roles:create"

    def get(self, request: HttpRequest, role_id: uuid.UUID) -> HttpResponse:
        """Show all roles with those that are implied ticked."""
        return self._form([role.id for role in panels.implied_by(self.role)], "")

    def post(self, request: HttpRequest, role_id: uuid.UUID) -> HttpResponse:
        """Let the role imply the ticked ones."""
        role, ticked = self.role, request.POST.getlist("roles")
        try:
            wanted, present = panels.roles_by_id(ticked), panels.implied_by(role)
            self._check("identity:implied_roles:create", [each for each in wanted if each not in present])
            self._check("identity:implied_roles:delete", [each for each in present if each not in wanted])
            onboarding.set_implied(role, wanted)
        except NovellaError as error:
            return self._form(ticked, error.message, status=422)
        return self.go("dashboard:roles", said=f"What {role.name} brings with it is saved.")

    def _check(self, rule: str, implied: list[Role]) -> None:
        for each in implied:
            target = {"role_domain_id": each.domain_id, "brings_admin": identity.brings_admin(each)}
            policy.enforce(self.context, rule, {**base.target_of(self.role), **target})

    def _form(self, ticked: list[Any], error: str, *, status: int = 200) -> HttpResponse:
        role = self.role
        context = {
            "role": role,
            "roles": [each for each in panels.roles_to_choose(role.domain) if each.id != role.id],
            "ticked": {str(each) for each in ticked},
            "error": error,
        }
        return self.page("dashboard/identity/role_implications.html", context, status=status)


class RoleDelete(QuestionPage[Role], RolePage):
    """The end of a role."""

    rule = "identity:roles:delete"
    question = "Delete the role {name}?"
    text = "Everybody who has it loses it, at once. This cannot be undone."

    def post(self, request: HttpRequest, role_id: uuid.UUID) -> HttpResponse:
        """Delete."""
        name = self.role.name
        services.delete_role(self.role)
        return self.go("dashboard:roles", said=f"{name} was deleted.")
