"""Roles: the list with what each implies, and what is done to them."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.identity import base
from portal.dashboard.identity.base import RolePage
from portal.dashboard.pages import Page
from provisioning.common.errors import NovellaError
from provisioning.identity import policy, services
from provisioning.identity import selectors as identity
from provisioning.identity.models import Role
from provisioning.identity.selectors import panels
from provisioning.identity.services import onboarding
from provisioning.identity.services.roles import is_immutable


class RoleList(Page):
    """All roles."""

    section = "roles"
    rule = "identity:roles:list"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show them by name, with what they imply."""
        wanted = base.wanted(request)
        found = panels.find_roles(wanted)
        context = {
            "found": found,
            "wanted": wanted,
            "rows": [
                (role, sorted(row.implied.name for row in role.implies.all()), is_immutable(role))
                for role in found.rows
            ],
            "can_create": self.allows("identity:roles:create"),
            "can_update": self.allows("identity:roles:update"),
            "can_delete": self.allows("identity:roles:delete"),
            "can_imply": self.allows("identity:implied_roles:create"),
        }
        return self.page("dashboard/identity/roles.html", context)


class RoleCreate(Page):
    """A new role."""

    section = "roles"
    rule = "identity:roles:create"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        return self._form({}, {})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make it, of the whole cloud or of one domain."""
        data = request.POST
        try:
            domain = base.domain_of(data, "") if base.text_of(data, "domain") else None
            role = services.create_role(
                base.text_of(data, "name"), domain=domain, description=base.text_of(data, "description")
            )
        except NovellaError as error:
            return self._form(data, base.errors_of(error), status=422)
        return self.go("dashboard:roles", said=f"{role.name} can be given now.")

    def _form(self, values: Any, errors: dict[str, str], *, status: int = 200) -> HttpResponse:
        context = {"values": values, "errors": errors, "domains": panels.all_domains()}
        return self.page("dashboard/identity/role_form.html", context, status=status)


class RoleEdit(RolePage):
    """A role's name and description."""

    rule = "identity:roles:update"

    def get(self, request: HttpRequest, role_id: uuid.UUID) -> HttpResponse:
        """Show the form."""
        return self._form({"name": self.role.name, "description": self.role.description}, {})

    def post(self, request: HttpRequest, role_id: uuid.UUID) -> HttpResponse:
        """Change it."""
        data, role = request.POST, self.role
        try:
            services.update_role(role, name=base.text_of(data, "name"), description=base.text_of(data, "description"))
        except NovellaError as error:
            return self._form(data, base.errors_of(error), status=422)
        return self.go("dashboard:roles", said="Saved.")

    def _form(self, values: Any, errors: dict[str, str], *, status: int = 200) -> HttpResponse:
        return self.page(
            "dashboard/identity/role_form.html", {"role": self._role, "values": values, "errors": errors}, status=status
        )


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


class RoleDelete(RolePage):
    """The end of a role."""

    rule = "identity:roles:delete"

    def get(self, request: HttpRequest, role_id: uuid.UUID) -> HttpResponse:
        """Ask."""
        return self.ask(
            {
                "title": f"Delete the role {self.role.name}?",
                "text": "Everybody who has it loses it, at once. This cannot be undone.",
                "action": reverse("dashboard:role_delete", args=[self.role.id]),
                "label": "Delete",
                "danger": True,
                "back": reverse("dashboard:roles"),
            }
        )

    def post(self, request: HttpRequest, role_id: uuid.UUID) -> HttpResponse:
        """Delete."""
        name = self.role.name
        services.delete_role(self.role)
        return self.go("dashboard:roles", said=f"{name} was deleted.")
