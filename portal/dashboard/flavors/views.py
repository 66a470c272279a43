"""Flavors: what sizes there are; operators make and remove them."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from portal.dashboard.forms import whole_number
from portal.dashboard.pages import Page
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors
from provisioning.compute.services.flavors import FlavorRequest, create_flavor, delete_flavor

FIELDS = {"ram": "memory_mb", "disk": "root_gb"}
"""The API's field names where the form has others."""


class FlavorPage(Page):
    """Base of the pages of this panel."""

    section = "flavors"
    rule = "compute:flavors:list"

    def back(self) -> str:
        """Refusals are shown on the list."""
        return "dashboard:flavors"


class FlavorList(FlavorPage):
    """All sizes the project may use."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show them, the smallest first."""
        context = {
            "rows": selectors.flavors_for(self.context),
            "can_create": self.allows("compute:flavors:create"),
            "can_delete": self.allows("compute:flavors:delete"),
        }
        return self.page("dashboard/flavors/list.html", context)


class FlavorCreate(FlavorPage):
    """A new size."""

    rule = "compute:flavors:create"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        return self.page("dashboard/flavors/create.html", {"values": {"vcpus": 1}, "errors": {}})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make it."""
        data = request.POST
        try:
            flavor = create_flavor(
                self.context,
                FlavorRequest(
                    name=data.get("name", ""),
                    vcpus=whole_number(data.get("vcpus", ""), "vCPUs", field="vcpus"),
                    memory_mb=whole_number(data.get("memory_mb", ""), "Memory", field="memory_mb"),
                    root_gb=whole_number(data.get("root_gb", ""), "The disk", field="root_gb"),
                    description=data.get("description", "").strip(),
                    is_public="is_public" in data,
                ),
            )
        except NovellaError as error:
            field = FIELDS.get(error.field or "", error.field or "form")
            context = {"values": data, "errors": {field: error.message}}
            return self.page("dashboard/flavors/create.html", context, status=422)
        return self.go("dashboard:flavors", said=f"{flavor.name} can be chosen now.")


class FlavorDelete(FlavorPage):
    """The end of a size."""

    rule = "compute:flavors:delete"

    def get(self, request: HttpRequest, flavor_id: str) -> HttpResponse:
        """Ask."""
        flavor = selectors.flavor_for(self.context, flavor_id)
        return self.ask_first(
            f"Delete {flavor.name}?",
            "It can no longer be chosen. Instances of this size keep their own copy and go on.",
        )

    def post(self, request: HttpRequest, flavor_id: str) -> HttpResponse:
        """Delete."""
        flavor = selectors.flavor_for(self.context, flavor_id)
        delete_flavor(self.context, flavor.flavorid)
        return self.go("dashboard:flavors", said=f"{flavor.name} was deleted.")
