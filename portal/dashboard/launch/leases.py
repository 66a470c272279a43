"""The lease of an instance: extended by one click, or changed in a form."""

import uuid

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.frame.forms import Form, OfferedField
from portal.dashboard.launch.forms import lease_choices, read_days
from portal.dashboard.records.views import RecordPage, SheetPage
from portal.dashboard.words.names import bdi
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.launches import selectors
from provisioning.launches.services import leases


class LeaseForm(Form):
    """The length of the lease, from now."""

    lease_days = OfferedField(label="Delete the instance", required=False, widget=forms.Select)

    def __init__(self, data: QueryDict | None, days: int | None) -> None:
        super().__init__(data, initial={"lease_days": str(days or "")})
        self.offer("lease_days", lease_choices(days))

    def clean_lease_days(self) -> int | None:
        return read_days(self.cleaned_data["lease_days"])


class LeasePage(RecordPage[Instance]):
    """Base of the pages of an instance's lease."""

    section = "instances"
    back_to = "dashboard:instances"
    page_name = "dashboard:instance"
    rule = leases.UPDATE

    def look_up(self, identity: uuid.UUID) -> Instance:
        return compute.instance_for(self.context, identity)


class LeaseExtend(LeasePage):
    """Starts the lease again, with its own length."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, identity: uuid.UUID) -> HttpResponse:
        leases.extend(self.context, identity)
        return self.go(self.back(), message=f"{bdi(self.record.name)} is kept longer.")


class LeaseEdit(SheetPage, LeasePage):
    """Sets, changes or removes the lease."""

    edits = True
    submit = "Save"

    def title(self) -> str:
        return f"When is {bdi(self.record.name)} deleted?"

    def about(self) -> str:
        return "The time begins now. You are notified before it ends, and can extend it."

    def cancel_url(self) -> str:
        return self.back()

    def form(self, data: QueryDict | None = None) -> Form:
        lease = selectors.lease_of(self.record.id)
        return LeaseForm(data, lease.days if lease else None)

    def save(self, form: Form) -> HttpResponse:
        days = form.cleaned_data["lease_days"]
        leases.set_lease(self.context, self.record.id, days)
        message = f"{bdi(self.record.name)} is deleted in {days} days." if days else f"{bdi(self.record.name)} is kept."
        return self.go(self.back(), message=message)
