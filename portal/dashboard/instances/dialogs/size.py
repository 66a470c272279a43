"""Resize of an instance, with the sizes that fit on its host."""

from collections.abc import Sequence

from django.contrib import messages
from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import ChoiceLabel, Form, OfferedField
from portal.dashboard.instances.page import InstanceSheet
from portal.dashboard.words.names import bdi
from provisioning.compute.actions.resize import resize
from provisioning.compute.actions.resize_choices import SizeChoice, size_choices
from provisioning.compute.moves.progress import move_of
from provisioning.compute.states import VmState

AFTERWARDS = "Confirm or revert the new size afterwards."


class ResizeForm(Form):
    """The new size."""

    service_fields = {"flavorRef": "flavor"}

    flavor = OfferedField(label="New size", error_messages={"required": "Choose a size."})


class Resize(InstanceSheet):
    """Resizes the instance, on its own host if that host has the resources."""

    path, label, icon, action = "resize", "Resize", "arrows-angle-expand", "resize"
    heading, submit = "Resize {name}", "Resize"
    message = f"{{name}} is being resized. {AFTERWARDS}"

    def form(self, data: QueryDict | None = None) -> Form:
        choices = size_choices(self.context, self.instance)
        fitting = next((choice.flavor.flavorid for choice in choices if not choice.reason), "")
        form = ResizeForm(data, initial={"flavor": fitting})
        offered = [(choice.flavor.flavorid, _label(choice)) for choice in choices]
        form.offer("flavor", offered, nothing="There is no other size.")
        return form

    def save(self, form: Form) -> HttpResponse:
        moved = resize(self.context, self.instance.id, form.cleaned_data["flavor"])
        if moved.task_state is None:  # no host can take it: the fault of the instance has the reason
            return self.go(self.back(), message="No host has capacity for the new size now.", level=messages.ERROR)
        if move_of(moved) is not None:
            name = bdi(self.instance.name)
            return self.go(self.back(), message=f"{name} moves to other hardware for its new size. {AFTERWARDS}")
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.RESIZE, {"server": str(self.instance.id), "flavor": form.cleaned_data["flavor"]})]

    def about(self) -> str:
        down = (
            "The guest is shut down, gets the new size and is started again."
            if self.instance.vm_state == VmState.ACTIVE
            else "It stays stopped."
        )
        size = self.instance.flavor["name"]
        return f"{super().about()} Now: {size}. {down} The disk cannot become smaller.".strip()


def _label(choice: SizeChoice) -> ChoiceLabel:
    css_class = "unfit" if choice.reason else ""
    template = "dashboard/instances/_size.html"
    return ChoiceLabel(choice.flavor.name, css_class=css_class, template=template, subject=choice)
