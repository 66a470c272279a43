"""Roles: the list with implied roles, and the actions."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.identity import base
from portal.dashboard.identity.base import RolePage
from portal.dashboard.identity.forms import RoleForm, RolesForm
from portal.dashboard.identity.frames import DeletePage, ListPage, RecordFormPage
from portal.dashboard.identity.listing import LEAST, ROLES, rule_of
from portal.dashboard.words.names import bdi
from provisioning.identity import policy
from provisioning.identity.models import Role
from provisioning.identity.roles.safeguards import roles_beyond_domains
from provisioning.identity.selectors import dashboard_lists
from provisioning.identity.selectors.lookups import counts_beyond_domains
from provisioning.identity.services import onboarding
from provisioning.identity.services.roles import create_role, delete_role, update_role


class RoleList(ListPage):
    """The list of roles; with a token for a domain, the global roles and the roles of this domain."""

    records = ROLES
    lead = (
        "Names that policy rules refer to. A new role allows nothing until a policy rule names it, or until it "
        "implies a role that a rule names."
    )


class RoleCreate(RecordFormPage):
    """The form for a new role."""

    section = "roles"
    kind = "role"
    rule = "identity:create_role"
    template = "dashboard/identity/role_form.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return RoleForm(data, domains=dashboard_lists.all_domains(within=self.within), within=self.within)

    def save(self, form: Form) -> HttpResponse:
        domain = form.cleaned_data["domain"]
        domain_id = domain.id if domain else None
        policy.enforce(self.context, rule_of(domain_id, "create"), {"domain_id": domain_id})
        role = create_role(**form.cleaned_data)
        return self.go("dashboard:roles", message=f"{bdi(role.name)} was created.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        return [Call(copied.ROLE, {**typed, "domain_id": typed["domain"].id if typed["domain"] else ""})]


class RoleEdit(RecordFormPage, RolePage):
    """The form for a role's name and description."""

    edits = True
    rule = "identity:update_role"
    domain_rule = "identity:update_domain_role"
    template = "dashboard/identity/role_form.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return RoleForm(data, initial={"name": self.record.name, "description": self.record.description})

    def save(self, form: Form) -> HttpResponse:
        update_role(self.record, **form.cleaned_data)
        return self.go("dashboard:roles", message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        return edit(copied.ROLE_EDIT, {"role": self.record.id.hex}, changes(form))


class RoleImplications(FormPage, RolePage):
    """The form for the roles that a role implies."""

    edits = True
    rule = "identity:create_implied_role"
    template = "dashboard/identity/role_implications.html"

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Return the policy target with the attributes of ``LEAST``, to learn whether the caller may create any
        implication.
        """
        return {**super().target(**kwargs), **LEAST}

    def form(self, data: QueryDict | None = None) -> Form:
        role = self.record
        ticked = dashboard_lists.implied_by(role)
        kept, beyond = {each.id for each in ticked}, roles_beyond_domains()
        others = [
            each
            for each in dashboard_lists.roles_to_choose(role.domain)
            if each.id != role.id and (each.id in kept or self._may_imply(each, beyond))
        ]
        others += [each for each in ticked if each not in others]  # roles of another domain
        return RolesForm(data, others, ticked=ticked, label="Implied roles", required=False)

    def save(self, form: Form) -> HttpResponse:
        role, implied = self.record, form.cleaned_data["roles"]
        present = dashboard_lists.implied_by(role)
        self._check("identity:create_implied_role", [each for each in implied if each not in present])
        self._check("identity:delete_implied_role", [each for each in present if each not in implied])
        onboarding.set_implied(role, implied)
        return self.go("dashboard:roles", message=f"The roles that {bdi(role.name)} implies are saved.")

    def extra_context(self) -> Mapping[str, Any]:
        return {"role": self.record}

    def calls(self, form: Form) -> Sequence[Call]:
        present, chosen = dashboard_lists.implied_by(self.record), form.cleaned_data["roles"]
        added, removed = (
            [each for each in chosen if each not in present],
            [each for each in present if each not in chosen],
        )
        rows = [(copied.IMPLICATION, each) for each in added or ([] if removed else chosen)]
        rows += [(copied.IMPLICATION_REMOVED, each) for each in removed]
        return [Call(kind, {"prior_role": self.record.id.hex, "implied_role": each.id.hex}) for kind, each in rows]

    def _may_imply(self, other: Role, beyond: Collection[Any]) -> bool:
        target = {"role_domain_id": other.domain_id, "beyond_domains": other.id in beyond}
        return self.allows(self.rule, {**base.target_of(self.record), **target})

    def _check(self, rule: str, implied: list[Role]) -> None:
        for each in implied:
            target = {"role_domain_id": each.domain_id, "beyond_domains": counts_beyond_domains(each)}
            policy.enforce(self.context, rule, {**base.target_of(self.record), **target})


class RoleDelete(DeletePage[Role], RolePage):
    """Asks for confirmation, and deletes a role."""

    rule = "identity:delete_role"
    domain_rule = "identity:delete_domain_role"
    question = "Delete the role {name}?"
    consequence = "It is revoked from all users and groups immediately. This cannot be undone."
    remove = staticmethod(delete_role)
