"""The place of an instance that returns to a host."""

from django import forms
from django.http import HttpResponse, QueryDict

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
        typed = form.cleaned_data
        zone, host = typed.get("zone", AS_BEFORE), typed.get("host", "")
        target_zone = UNSET if zone == AS_BEFORE else None if zone == ANY else zone.removeprefix("zone:")
        unshelve(self.context, self.instance.id, Destination(target_zone, host))
        return self.done()
