"""The place of an instance that returns to a host."""

from collections.abc import Sequence

from django import forms
from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import Form, OfferedField
from portal.dashboard.instances.page import InstanceSheet
from provisioning.common.values.unset import UNSET
from provisioning.compute.actions.unshelve import Destination, unshelve
from provisioning.compute.states import VmState
from provisioning.hosts.selectors import availability_zones

AS_BEFORE, ANY = "", "any"


class UnshelveForm(Form):
    """The destination, for an instance that has left its host."""

    service_fields = {"availability_zone": "zone"}

    zone = OfferedField(label="Availability zone", widget=forms.Select, required=False)
    host = forms.CharField(label="Host", max_length=255, required=False, help_text="Leave it empty for any host.")


class UnshelveTo(InstanceSheet):
    """Starts a shelved instance again, in a zone or on a host if it is offloaded."""

    path, label, icon, action = "unshelve", "Unshelve", "box-arrow-up", "unshelve"
    heading, submit, message = "Unshelve {name}?", "Unshelve", "{name} is being unshelved."
    consequence = "It is built again from the disk it had, with its addresses."

    def form(self, data: QueryDict | None = None) -> Form:
        form = UnshelveForm(data)
        zones = [f"zone:{zone}" for zone in availability_zones()]
        form.offer(
            "zone",
            [
                (AS_BEFORE, f"As before: {self.instance.availability_zone or 'any'}"),
                (ANY, "Any"),
                *((zone, zone.removeprefix("zone:")) for zone in zones),
            ],
        )
        if self.instance.vm_state != VmState.SHELVED_OFFLOADED:
            del form.fields["zone"]
        if "zone" not in form.fields or not self.allows("os_compute_api:os-shelve:unshelve_to_host"):
            del form.fields["host"]
        return form

    def save(self, form: Form) -> HttpResponse:
        unshelve(self.context, self.instance.id, _destination(form))
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        chosen = _destination(form)
        zone = None if chosen.zone is UNSET else chosen.zone
        values = {"availability_zone": zone, "any_zone": chosen.zone is None or None, "host": chosen.host}
        kind = copied.UNSHELVE if any(values.values()) else copied.UNSHELVE_AS_BEFORE
        return [Call(kind, {"server": str(self.instance.id), **values})]


def _destination(form: Form) -> Destination:
    zone, host = form.cleaned_data.get("zone", AS_BEFORE), form.cleaned_data.get("host", "")
    return Destination(UNSET if zone == AS_BEFORE else None if zone == ANY else zone.removeprefix("zone:"), host)
