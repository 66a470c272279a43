"""Domains: the list and the actions."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.identity import base, members, wording
from portal.dashboard.identity.base import DomainPage
from portal.dashboard.identity.forms import RecordForm
from portal.dashboard.identity.frames import DeletePage, ListPage, RecordFormPage
from portal.dashboard.identity.listing import DOMAINS
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.identity.models import Domain
from provisioning.identity.selectors import dashboard_lists
from provisioning.identity.services.domains import create_domain, delete_domain, set_domain_enabled, update_domain


class DomainList(ListPage):
    """All domains of the cloud."""

    records = DOMAINS
    lead = (
        "Each domain has users, groups and projects of its own; names are unique within a domain. Most clouds need "
        "only the first."
    )


class DomainDetail(DomainPage):
    """The page of one domain."""

    rule = "identity:get_domain"

    def get(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        """Show attributes and contents, members if the policy allows it, and the permitted actions."""
        domain = self.record
        target = base.target_of(domain)
        sees = {kind: self.allows(f"identity:list_{kind}", target) for kind in ("projects", "users", "groups")}
        shown = members.members_shown(self, domain) if self.allows(members.LIST, target) else {}
        context = {
            "domain": domain,
            "status": wording.ENABLED if domain.enabled else wording.DISABLED,
            "inside": dashboard_lists.inside(domain) if any(sees.values()) else {},
            "sees": sees,
            "own_roles": sorted(self.context.roles) if domain.id == self.context.domain_id else [],
            **shown,
            "may": {
                "update": self.allows("identity:update_domain", target),
                "delete": self.allows("identity:delete_domain", target),
                "add_project": self.allows("identity:create_project", target),
                "add_user": self.allows("identity:create_user", target),
                "add_group": self.allows("identity:create_group", target),
            },
        }
        return self.page("dashboard/identity/domain.html", context)


class OwnDomain(DomainDetail):
    """The domain of a domain manager's token."""

    section = "domain"

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Use the domain of the token."""
        return super().target(domain_id=self.context.domain_id)

    def get(self, request: HttpRequest, domain_id: str = "") -> HttpResponse:
        """Show the page of the domain."""
        return super().get(request, self.within)


class DomainCreate(RecordFormPage):
    """The form for a new domain."""

    section = "domains"
    kind = "domain"
    rule = "identity:create_domain"

    def form(self, data: QueryDict | None = None) -> Form:
        return RecordForm(data)

    def save(self, form: Form) -> HttpResponse:
        domain = create_domain(form.cleaned_data["name"], description=form.cleaned_data["description"])
        return self.go("dashboard:domain_page", domain.id, message=f"{bdi(domain.name)} was created.")

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.DOMAINS, form.cleaned_data)]


class DomainEdit(RecordFormPage, DomainPage):
    """The form for a domain's name and description."""

    edits = True
    rule = "identity:update_domain"

    def form(self, data: QueryDict | None = None) -> Form:
        return RecordForm(data, initial={"name": self.record.name, "description": self.record.description})

    def save(self, form: Form) -> HttpResponse:
        update_domain(self.record, **form.cleaned_data)
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        return edit(copied.DOMAIN_EDIT, {"domain": str(self.record.id)}, changes(form))


class DomainSwitchOff(QuestionPage, DomainPage):
    """Asks for confirmation, and disables a domain with all its contents."""

    rule = "identity:update_domain"
    question = "Disable {name}?"
    consequence = (
        "Its users are signed out immediately and cannot sign in. Its projects cannot be used. Instances keep running."
    )
    label = "Disable"
    message = "{name} was disabled."
    stays = True

    def do(self) -> None:
        set_domain_enabled(self.record, enabled=False)


class DomainSwitchOn(QuestionPage, DomainPage):
    """Asks for confirmation, and enables a domain again."""

    rule = "identity:update_domain"
    question = "Enable {name}?"
    consequence = "Its users can sign in again, and its projects can be used."
    label = "Enable"
    message = "{name} was enabled."
    stays = True

    def do(self) -> None:
        set_domain_enabled(self.record, enabled=True)


class DomainDelete(DeletePage[Domain], DomainPage):
    """Asks for confirmation, and deletes a domain."""

    rule = "identity:delete_domain"
    consequence = (
        "Its users, groups, roles and projects are deleted with it. Only a disabled domain can be deleted, and only"
        " when its projects own nothing. This cannot be undone."
    )
    remove = staticmethod(delete_domain)
