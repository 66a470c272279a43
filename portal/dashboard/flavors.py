"""Flavors, which operators create and delete: the list, the form for a new one, and the deletion."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.db.models import Q
from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import Form, WholeNumberField
from portal.dashboard.frame.pages import FormPage, Page
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, searched
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words import wording
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.models import Flavor
from provisioning.compute.services.flavors import FlavorRequest, create_flavor, delete_flavor
from provisioning.identity import policy


class FlavorForm(Form):
    """Name, resources and visibility of a flavor."""

    service_fields = {"ram": "memory_mb", "disk": "root_gb"}
    notes = {"memory_mb": "MiB", "root_gb": "GiB"}

    name = forms.CharField(max_length=255, widget=forms.TextInput({"placeholder": "m1.xlarge"}))
    vcpus = WholeNumberField(label="vCPUs", min_value=1, initial=1)
    memory_mb = WholeNumberField(label="Memory", min_value=1)
    root_gb = WholeNumberField(label="Disk", help_text="0 uses the image's size")
    description = forms.CharField(required=False)
    is_public = forms.BooleanField(label="Public: every project may use it", required=False, initial=True)


Row = dict[str, Any]


def _rows(context: RequestContext, flavors: Sequence[Flavor]) -> list[Row]:
    can_delete = policy.allows(context, "os_compute_api:os-flavor-manage:delete")
    return [{"flavor": each, "can_delete": can_delete} for each in flavors]


def _disk(row: Row) -> str:
    flavor = row["flavor"]
    root = f"{flavor.root_gb} GiB" if flavor.root_gb else "the image's"
    return f"{root} + {flavor.ephemeral_gb} GiB" if flavor.ephemeral_gb else root


def _buttons(row: Row) -> object:
    flavor = row["flavor"]
    if not row["can_delete"]:
        return ""
    return cells.button("trash", "Delete", flavor.name, "dashboard:flavor_delete", flavor.flavorid)


def _visible(_: RequestContext, value: str) -> Q:
    return Q(is_public=value == "public")


FLAVORS = RecordList[Flavor](
    key="flavors",
    model=Flavor,
    one="flavor",
    noun="flavors",
    rule="novella:flavors:index",
    row_id="flavor",
    records=lambda context, _: selectors.visible_flavors(context),
    rows=_rows,
    default="memory",
    order=lambda _: ("memory_mb", "vcpus", "root_gb", "name"),
    columns=(
        columns.name(
            lambda row: cells.name(row["flavor"].name, below=row["flavor"].description),
            lambda row: row["flavor"].name,
        ),
        columns.attribute("vcpus", "vCPUs", "flavor", css="num"),
        Column(
            "memory",
            "Memory",
            lambda row: wording.mebibytes(row["flavor"].memory_mb),
            sort="memory_mb",
            css="num",
            largest_first=True,
        ),
        Column("disk", "Disk", _disk, sort=("root_gb", "ephemeral_gb"), css="num", largest_first=True),
        Column(
            "visibility",
            "Visibility",
            lambda row: "public" if row["flavor"].is_public else "chosen projects",
            sort="is_public",
            css="muted",
        ),
        Column("flavorid", "ID", lambda row: row["flavor"].flavorid, sort="flavorid", css="mono muted"),
    ),
    actions=_buttons,
    search=searched("name", "description", "flavorid", exact=()),
    filters=(
        Filter("visibility", "Visibility", fixed(("public", "Public"), ("private", "Chosen projects")), _visible),
    ),
    empty=Empty(
        "sliders",
        "No flavors yet",
        "A flavor is the number of virtual processors and the size of memory and disk of an instance. Operators "
        "create flavors; without a flavor, nothing can be launched.",
    ),
    create=HeadLink(
        "New flavor",
        "dashboard:flavor_create",
        rule="os_compute_api:os-flavor-manage:create",
        first="Create the first flavor",
    ),
)


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
