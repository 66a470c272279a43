"""Forms of images: upload, and sharing with a project."""

from typing import Any

from django import forms
from django.conf import settings
from django.http import QueryDict

from portal.dashboard.frame.forms import Form, OfferedField, WholeNumberField
from provisioning.images.records.formats import BOOTABLE_FORMATS

SOURCES = (("file", "In a file on this computer"), ("web", "At a web address; the cloud downloads it"))


def formats() -> list[tuple[str, str]]:
    """Return the formats to choose from: disk and CD formats that the operator allows."""
    taken = settings.IMAGE_DISK_FORMATS
    return [(name, name) for name in BOOTABLE_FORMATS if name != "ami" and name in taken]


class UploadForm(Form):
    """The attributes of a new image; upload.js sends the file itself. ``size``: the file's bytes."""

    service_fields = {"properties": "login"}
    notes = {
        "min_ram": "MiB",
        "min_disk": "GiB",
        "login": "shown in the ssh command: debian, ubuntu, almalinux …",
    }

    source = forms.ChoiceField(
        label="Source", choices=SOURCES, initial="file", required=False, widget=forms.RadioSelect
    )
    uri = forms.CharField(
        label="Address",
        max_length=2048,
        required=False,
        widget=forms.URLInput({"placeholder": "https://", "autocomplete": "off", "spellcheck": "false"}),
        help_text="http or https, without a password in the address. Its progress is shown in the list.",
    )
    file = forms.FileField(
        required=False,
        widget=forms.FileInput({"accept": ".qcow2,.img,.raw,.iso,.vmdk,.vhd,.vhdx,.vdi"}),
        help_text="A disk image with cloud-init or an equivalent.",
    )
    size = WholeNumberField(required=False, max_value=1 << 60, widget=forms.HiddenInput)
    name = forms.CharField(max_length=255)
    disk_format = OfferedField(label="Format", initial="qcow2", widget=forms.Select)
    min_ram = WholeNumberField(label="Minimum memory", required=False, widget=forms.NumberInput({"placeholder": "0"}))
    min_disk = WholeNumberField(label="Minimum disk", required=False, widget=forms.NumberInput({"placeholder": "0"}))
    login = forms.CharField(
        label="Login user", max_length=255, required=False, widget=forms.TextInput({"autocapitalize": "none"})
    )
    visibility = OfferedField(label="Visibility", initial="private", required=False, widget=forms.Select)

    def __init__(self, data: QueryDict | None, *, can_import: bool, can_publish: bool, can_communitize: bool) -> None:
        super().__init__(data)
        self.fields["disk_format"].widget.choices = formats()
        if data is None and not can_import:  # the service rejects an import that is sent anyway
            del self.fields["source"], self.fields["uri"]
        audiences = [
            ("private", "this project"),
            ("shared", "this project, and projects it is shared with"),
            *([("community", "projects that know its ID")] if can_communitize else []),
            *([("public", "public: in every project's list")] if can_publish else []),
        ]
        self.offer("visibility", audiences)

    def clean(self) -> dict[str, Any]:
        """Require a file; the script fills in its size."""
        typed = super().clean() or {}
        if typed.get("source") != "web" and typed.get("size") is None:
            self.add_error("file", "Choose a file.")
        return typed

    @property
    def focused(self) -> str:
        return "file"

    @property
    def image(self) -> dict[str, Any]:
        """The arguments of the service for the image record."""
        typed = self.cleaned_data
        return {
            "name": typed["name"],
            "disk_format": typed["disk_format"],
            "container_format": "bare",
            "visibility": typed["visibility"] or "private",
            "min_disk": typed["min_disk"] or 0,
            "min_ram": typed["min_ram"] or 0,
            "properties": {"os_admin_user": typed["login"]} if typed["login"] else {},
        }


class ShareForm(Form):
    """The project that an image is shared with."""

    service_fields = {"member": "project"}
    focuses = False

    project = forms.CharField(
        label="ID of the project",
        max_length=64,
        widget=forms.TextInput({"class": "mono"}),
        help_text="Its members find the ID on their API access page.",
    )
