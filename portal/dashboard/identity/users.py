"""Users: the list, a new one, one in detail, and what people read about one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.dashboard.identity import base, wording
from portal.dashboard.identity.base import UserPage
from portal.dashboard.identity.frames import FormPage, ListPage
from portal.dashboard.identity.members import GRANT, REVOKE, check_grants
from provisioning.common.errors import InvalidInputError
from provisioning.identity import selectors, services
from provisioning.identity.models import Role, User
from provisioning.identity.selectors import members, panels
from provisioning.identity.services import onboarding

STATES = (("", "All"), ("enabled", "Enabled"), ("disabled", "Disabled"), ("expired", "Password expired"))


class UserList(ListPage):
    """All users of the cloud."""

    section = "users"
    kind = "user"
    rule = "identity:users:list"
    template = "dashboard/identity/users.html"
    states = STATES

    def find(self, wanted: panels.Wanted) -> panels.Found[Any]:
        """Find users."""
        return panels.find_users(wanted)

    def rows(self, found: Sequence[Any]) -> Sequence[Any]:
        """Show each with its state."""
        return [(user, wording.user_status(user)) for user in found]

    def further(self) -> dict[str, Any]:
        """Add the domains."""
        return {"domains": panels.all_domains()}


@method_decorator([never_cache, sensitive_post_parameters("password")], name="dispatch")
class UserCreate(FormPage):
    """A new user, with a role in the project where the user starts."""

    section = "users"
    kind = "user"
    rule = "identity:users:create"
    template = "dashboard/identity/user_form.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form, for a user of the project that the address names."""
        named = selectors.project_by(project_id=request.GET.get("project", ""))
        values = {
            "domain": named.domain_id if named else self.context.user_domain_id,
            "project": named.name if named else "",
            "how": "make",
            "role": "member",
        }
        return self.show(values)

    def save(self, data: QueryDict) -> HttpResponse:
        """Make the user; a generated password is in this answer and nowhere else."""
        domain = base.domain_of(data, self.context.user_domain_id)
        password = password_of(data)
        project, role = base.project_of(data, "project", domain), _role_of(data)
        if project is not None and role is not None:
            check_grants(self, GRANT, project, User(domain=domain), [role])
        user = onboarding.create_user_with_role(
            domain,
            base.text_of(data, "name"),
            password=password,
            email=base.text_of(data, "email"),
            description=base.text_of(data, "description"),
            project=project,
            role=role,
        )
        if data.get("how") == "type":
            return self.go("dashboard:user_page", user.id, said=f"{user.name} can sign in now.")
        return self.page(
            "dashboard/identity/password_once.html", {"person": user, "password": password, "is_new": True}, status=201
        )

    def choices(self) -> dict[str, Any]:
        """Offer domains, projects and roles."""
        return {
            "domains": panels.all_domains(),
            "roles": panels.roles_to_choose(),
            "suggested": panels.projects_to_choose(""),
        }


class UserDetail(UserPage):
    """One user."""

    rule = "identity:users:show"

    def get(self, request: HttpRequest, user_id: uuid.UUID) -> HttpResponse:
        """Show facts, roles and how they come, groups, and what signs in for the user."""
        user = self.user
        target = base.target_of(user)
        shows_roles = self.allows("identity:role_assignments:list", target)
        context = {
            "person": user,
            "status": wording.user_status(user),
            "locked_until": services.lockout_of(user),
            "standings": members.standings_of(user) if shows_roles else None,
            "groups": panels.groups_of(user),
            "sessions": len(selectors.sign_ins_of(user))
            if shows_roles or self.allows("identity:sign_ins:list", target)
            else None,
            "credentials": selectors.application_credentials_of(user),
            "may": {
                "update": self.allows("identity:users:update", target),
                "delete": self.allows("identity:users:delete", target),
                "sign_out": self.allows("identity:users:update", target),
                "see_groups": self.allows("identity:groups:list"),
                "delete_credentials": self.allows("identity:application_credentials:delete", target),
                "grant": self.allows(GRANT, target),
                "revoke": self.allows(REVOKE, target),
            },
        }
        return self.page("dashboard/identity/user.html", context)


class UserEdit(FormPage, UserPage):
    """What people read about a user, and where the user starts."""

    rule = "identity:users:update"
    template = "dashboard/identity/user_form.html"

    def get(self, request: HttpRequest, user_id: uuid.UUID) -> HttpResponse:
        """Show the form."""
        user = self.user
        values = {
            "name": user.name,
            "email": user.email,
            "description": user.description,
            "project": user.default_project.name if user.default_project else "",
        }
        return self.show(values)

    def save(self, data: QueryDict) -> HttpResponse:
        """Change it."""
        services.update_user(
            self.user,
            name=base.text_of(data, "name"),
            email=base.text_of(data, "email"),
            description=base.text_of(data, "description"),
            default_project=base.project_of(data, "project", self.user.domain),
        )
        return self.go(self.back(), said="Saved.")

    def choices(self) -> dict[str, Any]:
        """Offer the user's projects."""
        return {"suggested": selectors.projects_of(self.user.id)}


def password_of(data: QueryDict) -> str:
    """Return the password that was typed, or a new one when one is to be made; InvalidInputError at ``password``."""
    if data.get("how") != "type":
        return onboarding.new_password()
    password = data.get("password", "")
    if not password:
        raise InvalidInputError("Type a password, or have one made.", field="password")
    return password


def _role_of(data: QueryDict) -> Role | None:
    """Return the role that was chosen by its name; nobody is asked for one without a project."""
    if not base.text_of(data, "project"):
        return None
    chosen = base.text_of(data, "role")
    return next((role for role in panels.roles_to_choose() if role.name == chosen), None)
