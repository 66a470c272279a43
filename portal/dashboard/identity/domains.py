"""Domains: the list, and what is done to them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.identity import base
from portal.dashboard.identity.base import DomainPage
from portal.dashboard.pages import Page
from provisioning.common.errors import NovellaError
from provisioning.identity import services
from provisioning.identity.selectors import panels


class DomainList(Page):
    """All domains of the cloud."""

    section = "domains"
    rule = "identity:domains:list"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show them by name, with how much is in them."""
        wanted = base.wanted(request)
        context = {
            "found": panels.find_domains(wanted),
            "wanted": wanted,
            "can_create": self.allows("identity:domains:create"),
            "can_update": self.allows("identity:domains:update"),
            "can_delete": self.allows("identity:domains:delete"),
        }
        return self.page("dashboard/identity/domains.html", context)


class DomainCreate(Page):
    """A new domain."""

    section = "domains"
    rule = "identity:domains:create"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        return self._form({}, {})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make it."""
        data = request.POST
        try:
            domain = services.create_domain(base.text_of(data, "name"), description=base.text_of(data, "description"))
        except NovellaError as error:
            return self._form(data, base.errors_of(error), status=422)
        return self.go("dashboard:domains", said=f"{domain.name} is made.")

    def _form(self, values: Any, errors: dict[str, str], *, status: int = 200) -> HttpResponse:
        return self.page("dashboard/identity/domain_form.html", {"values": values, "errors": errors}, status=status)


class DomainEdit(DomainPage):
    """A domain's name and description."""

    rule = "identity:domains:update"

    def get(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        """Show the form."""
        return self._form({"name": self.domain.name, "description": self.domain.description}, {})

    def post(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        """Change it."""
        data = request.POST
        try:
            services.update_domain(
                self.domain, name=base.text_of(data, "name"), description=base.text_of(data, "description")
            )
        except NovellaError as error:
            return self._form(data, base.errors_of(error), status=422)
        return self.go("dashboard:domains", said="Saved.")

    def _form(self, values: Any, errors: dict[str, str], *, status: int = 200) -> HttpResponse:
        context = {"domain": self.domain, "values": values, "errors": errors}
        return self.page("dashboard/identity/domain_form.html", context, status=status)


class DomainSwitchOff(DomainPage):
    """Closing a domain with everything in it."""

    rule = "identity:domains:update"

    def get(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        """Ask."""
        return self.ask(
            {
                "title": f"Disable {self.domain.name}?",
                "text": "Its users are signed out and cannot sign in, and nobody can work in its projects, at once."
                " Instances go on.",
                "action": reverse("dashboard:domain_disable", args=[self.domain.id]),
                "label": "Disable",
                "danger": True,
                "back": reverse("dashboard:domains"),
            }
        )

    def post(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        """Close it."""
        services.set_domain_enabled(self.domain, enabled=False)
        return self.go("dashboard:domains", said=f"{self.domain.name} is closed.")


class DomainSwitchOn(DomainPage):
    """Opening a domain again."""

    rule = "identity:domains:update"
    http_method_names = ["post"]

    def post(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        """Open it."""
        services.set_domain_enabled(self.domain, enabled=True)
        return self.go("dashboard:domains", said=f"{self.domain.name} is open.")


class DomainDelete(DomainPage):
    """The end of a domain."""

    rule = "identity:domains:delete"

    def get(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        """Ask."""
        return self.ask(
            {
                "title": f"Delete {self.domain.name}?",
                "text": "Its users, groups, roles and projects go with it. Only a disabled domain is deleted, and only"
                " when its projects own nothing. This cannot be undone.",
                "action": reverse("dashboard:domain_delete", args=[self.domain.id]),
                "label": "Delete",
                "danger": True,
                "back": reverse("dashboard:domains"),
            }
        )

    def post(self, request: HttpRequest, domain_id: str) -> HttpResponse:
        """Delete."""
        name = self.domain.name
        services.delete_domain(self.domain)
        return self.go("dashboard:domains", said=f"{name} was deleted.")
