"""Domains: the list, and what is done to them."""

from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.forms import Form
from portal.dashboard.identity.base import DomainPage
from portal.dashboard.identity.forms import RecordForm
from portal.dashboard.identity.frames import DeletePage, ListPage, QuestionPage, RecordFormPage
from provisioning.identity.models import Domain
from provisioning.identity.selectors import dashboard_lists
from provisioning.identity.services.domains import create_domain, delete_domain, set_domain_enabled, update_domain


class DomainList(ListPage):
    """All domains of the cloud."""

    section = "domains"
    kind = "domain"
    rule = "identity:list_domains"
    template = "dashboard/identity/domains.html"

    def find(self, wanted: dashboard_lists.Wanted) -> dashboard_lists.Found[Any]:
        return dashboard_lists.find_domains(wanted)

    def further(self) -> dict[str, Any]:
        """Add what may be done here."""
        return {
            "can_update": self.allows("identity:update_domain"),
            "can_delete": self.allows("identity:delete_domain"),
        }


class DomainCreate(RecordFormPage):
    """The form for a new domain."""

    section = "domains"
    kind = "domain"
    rule = "identity:create_domain"

    def form(self, data: QueryDict | None = None) -> Form:
        return RecordForm(data)

    def save(self, form: Form) -> HttpResponse:
        domain = create_domain(form.cleaned_data["name"], description=form.cleaned_data["description"])
        return self.go("dashboard:domains", said=f"{domain.name} is created.")


class DomainEdit(RecordFormPage, DomainPage):
    """The form for a domain's name and description."""

    rule = "identity:update_domain"

    def form(self, data: QueryDict | None = None) -> Form:
        return RecordForm(data, initial={"name": self.record.name, "description": self.record.description})

    def save(self, form: Form) -> HttpResponse:
        update_domain(self.record, **form.cleaned_data)
        return self.go("dashboard:domains", said="Saved.")


class DomainSwitchOff(QuestionPage[Domain], DomainPage):
    """Asks, and disables a domain with everything in it."""

    rule = "identity:update_domain"
    question = "Disable {name}?"
    text = "Its users are signed out and cannot sign in, and nobody can work in its projects, at once. Instances go on."
    label = "Disable"

    def post(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        set_domain_enabled(self.record, enabled=False)
        return self.go("dashboard:domains", said=f"{self.record.name} is disabled.")


class DomainSwitchOn(DomainPage):
    """Enables a domain again."""

    rule = "identity:update_domain"
    http_method_names = ["post"]

    def post(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        set_domain_enabled(self.record, enabled=True)
        return self.go("dashboard:domains", said=f"{self.record.name} is enabled.")


class DomainDelete(DeletePage[Domain], DomainPage):
    """Asks, and deletes a domain."""

    rule = "identity:delete_domain"
    text = (
        "Its users, groups, roles and projects go with it. Only a disabled domain is deleted, and only"
        " when its projects own nothing. This cannot be undone."
    )
    remove = staticmethod(delete_domain)
