"""Actions on a volume: edit, extend, retype, upload as image, delete."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import storage as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import SheetPage, name_of
from portal.dashboard.volumes.forms import EditVolumeForm, ExtendForm, RetypeForm, UploadForm
from portal.dashboard.volumes.rows import type_name
from portal.dashboard.volumes.views import VolumePage
from portal.dashboard.words.names import bdi
from provisioning.volumes import selectors, services


class VolumeEdit(SheetPage, VolumePage):
    """The form for the attributes that can be edited in any state."""

    edits = True
    rule = "volume:update"

    def form(self, data: QueryDict | None = None) -> Form:
        names = ("name", "description", "bootable", "read_only")
        form = EditVolumeForm(data, initial={name: getattr(self.record, name) for name in names})
        if not self.allows("volume:update_readonly_flag", self.target(identity=self.record.id)):
            del form.fields["read_only"]
        return form

    def save(self, form: Form) -> HttpResponse:
        services.edit_volume(self.context, self.record.id, **form.cleaned_data)
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        changed, ids = changes(form), {"volume": str(self.record.id)}
        flags = (("bootable", copied.BOOTABLE), ("read_only", copied.READ_ONLY))
        actions = [Call(kind, {**ids, name: changed[name]}) for name, kind in flags if name in changed]
        return [*edit(copied.VOLUME_EDIT, ids, changed), *actions]

    def title(self) -> str:
        return f"Edit {bdi(name_of(self.record))}"


class VolumeExtend(SheetPage, VolumePage):
    """The form for a volume's new size."""

    rule = services.Extend.rule
    submit = "Extend"

    def form(self, data: QueryDict | None = None) -> Form:
        return ExtendForm(data, initial={"size": self.record.size_gb + max(self.record.size_gb // 2, 1)})

    def save(self, form: Form) -> HttpResponse:
        size = form.cleaned_data["size"]
        services.Extend.begin(self.context, self.record.id, size)
        return self.go(self.back(), message=f"{bdi(name_of(self.record))} grows to {size} GiB.")

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.EXTEND, {"volume": str(self.record.id), "size": form.cleaned_data["size"]})]

    def title(self) -> str:
        return f"Extend {bdi(name_of(self.record))}"

    def about(self) -> str:
        return (
            f"It has {self.record.size_gb} GiB and cannot be shrunk later. An attached instance keeps running; "
            "its file system has to be extended in the guest: the tab Disks of the instance has the commands."
        )


class VolumeRetype(SheetPage, VolumePage):
    """The form for a volume's new type."""

    rule = services.Retype.rule
    submit = "Change type"

    def form(self, data: QueryDict | None = None) -> Form:
        types = selectors.visible_types(self.context).order_by("name")
        return RetypeForm(data, types, self.record.volume_type_id)

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        policy = "on-demand" if typed["on_demand"] else "never"
        services.Retype.begin(self.context, self.record.id, services.RetypeRequest(typed["volume_type"], policy))
        return self.go(self.back(), message=f"{bdi(name_of(self.record))} changes its type.")

    def calls(self, form: Form) -> Sequence[Call]:
        policy = "on-demand" if form.cleaned_data["on_demand"] else "never"
        values = {"volume_type": form.cleaned_data["volume_type"], "migration_policy": policy}
        return [Call(copied.RETYPE, {"volume": str(self.record.id), **values})]

    def title(self) -> str:
        return f"Change the type of {bdi(name_of(self.record))}"

    def about(self) -> str:
        now = self.record.volume_type
        return f"Its type is {type_name(now)} now." if now else "It now has no type."


class VolumeUpload(SheetPage, VolumePage):
    """The form to create an image from a volume."""

    rule = services.UploadToImage.rule
    submit = "Create image"

    def form(self, data: QueryDict | None = None) -> Form:
        return UploadForm(data, initial={"name": self.record.name, "disk_format": "qcow2"})

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        request = services.UploadRequest(typed["name"], disk_format=typed["disk_format"])
        services.UploadToImage.begin(self.context, self.record.id, request)
        return self.go(
            "dashboard:images",
            message=f"The image {bdi(typed['name'])} is being created from {bdi(name_of(self.record))}.",
        )

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.VOLUME_IMAGE, {**form.cleaned_data, "volume": str(self.record.id)})]

    def title(self) -> str:
        return f"Create an image of {bdi(name_of(self.record))}"


class VolumeDelete(QuestionPage, VolumePage):
    """Asks for confirmation, and deletes a volume with its snapshots."""

    rule = services.Delete.rule
    message = "{name} is being deleted."

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Ask for confirmation, or show why the volume cannot be deleted."""
        services.check_deletable(self.record, cascade=True)
        return super().get(request)

    def text(self) -> str:
        many = self.record.snapshots.count()
        with_them = (
            f" Its {many} snapshots are deleted with it."
            if many > 1
            else " Its snapshot is deleted with it."
            if many
            else ""
        )
        return f"Its data is lost.{with_them} Backups are kept. This cannot be undone."

    def do(self) -> None:
        services.Delete.begin(self.context, self.record.id, services.VolumeDeletion(cascade=True))

    def back(self) -> str:
        return reverse("dashboard:volume", args=[self.record.id])


class VolumeUnmanage(QuestionPage, VolumePage):
    """Asks for confirmation, and deletes the record of a volume without its data."""

    rule = services.Unmanage.rule
    question = "Unmanage {name}?"
    label = "Unmanage"
    message = "The record of {name} is being deleted."

    def text(self) -> str:
        return (
            f"Its record with name, metadata and messages is deleted. The data stay in the pool as "
            f"volume-{self.record.id}, from which an operator can create a volume again."
        )

    def do(self) -> None:
        services.Unmanage.begin(self.context, self.record.id, None)
