"""Roles: the list with what each implies, and what is done to them."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse, QueryDict

from portal.dashboard.forms import Form
from portal.dashboard.identity import base
from portal.dashboard.identity.base import RolePage
from portal.dashboard.identity.forms import RoleForm, RolesForm
from portal.dashboard.identity.frames import DeletePage, ListPage, RecordFormPage
from portal.dashboard.pages import FormPage
from provisioning.identity import policy
from provisioning.identity.models import Role
from provisioning.identity.selectors import dashboard_lists
from provisioning.identity.selectors.role_lookups import brings_admin
from provisioning.identity.services import onboarding
from provisioning.identity.services.roles import create_role, delete_role, is_immutable, update_role


class RoleList(ListPage):
    """The list of roles."""

    section = "roles"
    kind = "role"
    rule = "identity:list_roles"
    template = "dashboard/identity/roles.html"

    def find(self, wanted: dashboard_lists.Wanted) -> dashboard_lists.Found[Any]:
        return dashboard_lists.find_roles(wanted)

    def rows(self, found: Sequence[Any]) -> Sequence[Any]:
        return [(role, sorted(row.implied.name for row in role.implies.all()), is_immutable(role)) for role in found]

    def further(self) -> dict[str, Any]:
        """Add what may be done here."""
        return {
            "can_update": self.allows("identity:update_role"),
            "can_delete": self.allows("identity:delete_role"),
            "can_imply": self.allows("identity:create_implied_role"),
        }


class RoleCreate(RecordFormPage):
    """The form for a new role."""

    section = "roles"
    kind = "role"
    rule = "identity:create_role"
    template = "dashboard/identity/role_form.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return RoleForm(data, domains=dashboard_lists.all_domains())

    def save(self, form: Form) -> HttpResponse:
        role = create_role(**form.cleaned_data)
        return self.go("dashboard:roles", said=f"{role.name} can be given now.")


class RoleEdit(RecordFormPage, RolePage):
    """The form for a role's name and description."""

    rule = "identity:update_role"
    template = "dashboard/identity/role_form.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return RoleForm(data, initial={"name": self.record.name, "description": self.record.description})

    def save(self, form: Form) -> HttpResponse:
        update_role(self.record, **form.cleaned_data)
        return self.go("dashboard:roles", said="Saved.")


class RoleImplications(FormPage, RolePage):
    """The form for the roles that a role implies."""

    rule = "identity:create_implied_role"
    template = "dashboard/identity/role_implications.html"

    def form(self, data: QueryDict | None = None) -> Form:
        role = self.record
        others = [each for each in dashboard_lists.roles_to_choose(role.domain) if each.id != role.id]
        ticked = dashboard_lists.implied_by(role)
        return RolesForm(data, others, ticked=ticked, label="Implied roles", required=False)

    def save(self, form: Form) -> HttpResponse:
        role, wanted = self.record, form.cleaned_data["roles"]
        present = dashboard_lists.implied_by(role)
        self._check("identity:create_implied_role", [each for each in wanted if each not in present])
        self._check("identity:delete_implied_role", [each for each in present if each not in wanted])
        onboarding.set_implied(role, wanted)
        return self.go("dashboard:roles", said=f"The roles that {role.name} implies are saved.")

    def further(self) -> Mapping[str, Any]:
        return {"role": self.record}

    def _check(self, rule: str, implied: list[Role]) -> None:
        for each in implied:
            target = {"role_domain_id": each.domain_id, "brings_admin": brings_admin(each)}
            policy.enforce(self.context, rule, {**base.target_of(self.record), **target})


class RoleDelete(DeletePage[Role], RolePage):
    """Asks, and deletes a role."""

    rule = "identity:delete_role"
    question = "Delete the role {name}?"
    text = "Everybody who has it loses it, at once. This cannot be undone."
    remove = staticmethod(delete_role)
