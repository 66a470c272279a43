"""Flavors; operators create and delete them."""

from collections.abc import Sequence

from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.flavors.forms import FlavorForm
from portal.dashboard.flavors.listing import FLAVORS
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage, Page
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.compute import selectors
from provisioning.compute.services.flavors import FlavorRequest, create_flavor, delete_flavor


class FlavorPage(Page):
    """Base of the pages of this panel."""

    section = "flavors"
    back_to = "dashboard:flavors"
    rule = "novella:flavors:index"


class FlavorList(ListPage, FlavorPage):
    """The list of flavors that the project may use."""

    records = FLAVORS
    lead = (
        "The sizes an instance can have. An instance keeps the size it was launched with when a flavor is changed "
        "or deleted."
    )


class FlavorCreate(FormPage, FlavorPage):
    """The form for a new flavor."""

    rule = "os_compute_api:os-flavor-manage:create"
    template = "dashboard/flavors/create.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return FlavorForm(data)

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        renamed = {"ram": typed["memory_mb"], "disk": typed["root_gb"]}
        return [Call(copied.FLAVOR, {**typed, **renamed})]

    def save(self, form: Form) -> HttpResponse:
        flavor = create_flavor(self.context, FlavorRequest(**form.cleaned_data))
        return self.go("dashboard:flavors", message=f"{bdi(flavor.name)} was created.")


class FlavorDelete(QuestionPage, FlavorPage):
    """Asks for confirmation, and deletes a flavor."""

    rule = "os_compute_api:os-flavor-manage:delete"
    consequence = "It can no longer be chosen. Running instances keep their own copy of it."

    def find(self) -> None:
        self.record = selectors.flavor_for(self.context, self.kwargs["flavor_id"])

    def do(self) -> None:
        delete_flavor(self.context, self.record.flavorid)
