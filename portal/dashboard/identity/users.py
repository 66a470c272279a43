"""Users: the list, the forms, and the detail page."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.dashboard.copy_as.calls import Call, Result, Secret, edit
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.identity import base, places, wording
from portal.dashboard.identity.base import UserPage
from portal.dashboard.identity.forms import NewUserForm, UserForm
from portal.dashboard.identity.frames import ListPage, RecordFormPage
from portal.dashboard.identity.listing import USERS
from portal.dashboard.identity.members import LIST
from portal.dashboard.identity.places import GRANT, REVOKE, check_grants, least_grant
from portal.dashboard.words.names import bdi
from provisioning.identity.lockout.lockout import lockout_of
from provisioning.identity.models import Project, User
from provisioning.identity.selectors import dashboard_lists, members
from provisioning.identity.selectors.credentials import application_credentials_of
from provisioning.identity.selectors.entries import projects_of
from provisioning.identity.selectors.lookups import by_id
from provisioning.identity.selectors.tokens import sign_ins_of
from provisioning.identity.services import onboarding
from provisioning.identity.services.users import update_user

STATES = (("", "All"), ("enabled", "Enabled"), ("disabled", "Disabled"), ("expired", "Password expired"))


class UserList(ListPage):
    """All users of the cloud, or of the managed domain."""

    records = USERS
    lead = "People and programs that sign in. Their permissions come from their roles on projects."


@method_decorator([never_cache, sensitive_post_parameters("password")], name="dispatch")
class UserCreate(RecordFormPage):
    """The form for a new user, with a role in the default project."""

    section = "users"
    kind = "user"
    rule = "identity:create_user"

    def form(self, data: QueryDict | None = None) -> Form:
        """Return the form, with the project in the address as default project."""
        within = self.within
        named = by_id(Project, self.request.GET.get("project", ""))
        named = None if named and within and named.domain_id != within else named
        initial = {
            "domain": named.domain_id if named else within or self.context.user_domain_id,
            "project": named.name if named else "",
            "role": "member",
        }
        domains, roles = dashboard_lists.all_domains(within=within), places.offered_in(self, within or None)
        return NewUserForm(data, initial=initial, domains=domains, roles=roles, within=within)

    def save(self, form: Form) -> HttpResponse:
        """Create the user; a generated password is shown only in this response."""
        typed = form.cleaned_data
        domain, project, role = typed["domain"], typed["project"], typed["role"]
        self.check_domain(domain)
        if project is not None and role is not None:
            check_grants(self, GRANT, project, User(domain=domain), [role])
        user = onboarding.create_user_with_role(
            domain,
            typed["name"],
            password=typed["password"],
            email=typed["email"],
            description=typed["description"],
            project=project,
            role=role,
        )
        if typed["how"] == "type":
            return self.go("dashboard:user_page", user.id, message=f"{bdi(user.name)} was created.")
        shown = {"person": user, "password": typed["password"], "is_new": True}
        return self.page("dashboard/identity/password_once.html", shown, status=201)

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        project, role = typed["project"], typed["role"]
        own = {"domain_id": typed["domain"].id, "default_project_id": project.id.hex if project else ""}
        names = ("name", "email", "description")
        user = Call(copied.USER, {**{name: typed[name] for name in names}, **own, "password": Secret("password")})
        if project is None or role is None:
            return [user]
        ids = {"project_id": project.id.hex, "user_id": Result(user), "role_id": role.id.hex}
        return [user, Call(copied.assignment("user"), ids)]

    def extra_context(self) -> dict[str, Any]:
        return {**super().extra_context(), "suggested": dashboard_lists.projects_to_choose("", within=self.within)}


class UserDetail(UserPage):
    """The page of one user."""

    rule = "identity:get_user"

    def get(self, request: HttpRequest, user_id: uuid.UUID) -> HttpResponse:
        """Show attributes, roles with their origin, groups, and credentials."""
        user = self.record
        target = base.target_of(user)
        shows_roles = self.allows(LIST, target)
        grants = {**target, **least_grant(user.domain_id)}
        sees_sessions = shows_roles or self.allows("novella:list_sign_ins", target)
        sees_credentials = self.allows("identity:list_application_credentials", target)
        context = {
            "person": user,
            "status": wording.user_status(user),
            "locked_until": lockout_of(user),
            "standings": members.memberships_of(user, within=self.within) if shows_roles else None,
            "groups": dashboard_lists.groups_of(user, within=self.within),
            "sessions": sign_ins_of(user.id).count() if sees_sessions else None,
            "credentials": application_credentials_of(user) if sees_credentials else None,
            "may": {
                "update": self.allows("identity:update_user", target),
                "delete": self.allows("identity:delete_user", target),
                "sign_out": self.allows("identity:update_user", target),
                "see_groups": self.allows("identity:list_groups", target),
                "delete_credentials": self.allows("identity:delete_application_credential", target),
                "grant": self.allows(GRANT, grants),
                "revoke": self.allows(REVOKE, grants),
            },
        }
        return self.page("dashboard/identity/user.html", context)


class UserEdit(RecordFormPage, UserPage):
    """The form for a user's name, email address, description and default project."""

    edits = True
    rule = "identity:update_user"

    def form(self, data: QueryDict | None = None) -> Form:
        user = self.record
        initial = {
            "name": user.name,
            "email": user.email,
            "description": user.description,
            "project": user.default_project.name if user.default_project else "",
        }
        return UserForm(data, initial=initial, own_domain=user.domain, within=self.within)

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        update_user(
            self.record,
            name=typed["name"],
            email=typed["email"],
            description=typed["description"],
            default_project=typed["project"],
        )
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        changed = changes(form)
        if "project" in changed:
            project = changed.pop("project")
            changed["default_project_id"] = project.id.hex if project else None
        return edit(copied.USER_EDIT, {"user": self.record.id.hex}, changed)

    def extra_context(self) -> dict[str, Any]:
        projects = projects_of(self.record.id)
        near = [project for project in projects if not self.within or project.domain_id == self.within]
        return {**super().extra_context(), "suggested": near}
