"""Name, description, host name, tags and metadata of an instance."""

from collections.abc import Callable, Sequence

from django import forms
from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import MONO, Form, metadata_of
from portal.dashboard.instances.page import InstanceSheet
from portal.dashboard.words.names import bdi
from portal.dashboard.words.plain import plain
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute.models import Instance
from provisioning.compute.services.instances import Changes, update
from provisioning.compute.services.metadata import check_may_change, set_metadata
from provisioning.compute.services.tags import MOST, check_may_tag, set_tags


class RenameForm(Form):
    """The record of an instance, besides tags and metadata."""

    notes = {"description": "for people"}

    name = forms.CharField(max_length=255)
    description = forms.CharField(max_length=255, required=False)
    hostname = forms.CharField(
        label="Host name",
        max_length=255,
        help_text="The guest reads it from its metadata when it boots. The DNS name of its ports changes immediately.",
    )


class Rename(InstanceSheet):
    """Changes name, description and host name."""

    edits = True
    path, label, icon = "rename", "Rename", "pencil"
    heading = "Rename {name}"
    rule = "os_compute_api:servers:update"

    def form(self, data: QueryDict | None = None) -> Form:
        own = self.instance
        return RenameForm(
            data, initial={"name": own.name, "description": own.description or "", "hostname": own.hostname}
        )

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        changes = Changes(name=typed["name"], description=typed["description"] or None)
        if typed["hostname"] != self.instance.hostname:
            changes["hostname"] = typed["hostname"]
        saved = update(self.context, self.instance.id, **changes)
        return self.go(self.back(), message=f"{bdi(saved.name)} was saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        return edit(copied.SERVER_EDIT, {"server": str(self.instance.id)}, changes(form))


class TagsForm(Form):
    """The tags, one on each line."""

    tags = forms.CharField(
        required=False,
        widget=forms.Textarea({"class": MONO, "rows": 5, "placeholder": "web"}),
        help_text=f"One on each line, at most {MOST}, without commas and slashes.",
    )

    def clean_tags(self) -> list[str]:
        return [line.strip() for line in self.cleaned_data["tags"].splitlines() if line.strip()]


class EditTags(InstanceSheet):
    """Edits all tags as one text. Tags that are not in the text are removed."""

    edits = True
    path, label, icon = "tags", "Edit tags", "tags"
    heading, message = "Tags of {name}", "The tags of {name} were saved."
    rule = "os_compute_api:os-server-tags:update_all"

    def form(self, data: QueryDict | None = None) -> Form:
        return TagsForm(data, initial={"tags": "\n".join(self.instance.tags)})

    def save(self, form: Form) -> HttpResponse:
        set_tags(self.context, self.instance.id, form.cleaned_data["tags"])
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        own = self.instance
        return copied.replacing(
            copied.TAGS, copied.TAGS_REMOVED, str(own.id), own.tags, list(dict.fromkeys(form.cleaned_data["tags"]))
        )

    @classmethod
    def why_not(cls, context: RequestContext, instance: Instance, masters: bool) -> str:  # noqa: FBT001 - as in the menu
        return error_of(lambda: check_may_tag(instance, "update tags"))


class MetadataForm(Form):
    """The metadata, one key=value on each line."""

    metadata = forms.CharField(
        required=False,
        widget=forms.Textarea({"class": MONO, "rows": 6, "placeholder": "role=web"}),
        help_text="One key=value on each line. The guest reads them from the metadata service.",
    )

    def clean_metadata(self) -> dict[str, str]:
        return metadata_of(self.cleaned_data["metadata"])


class EditMetadata(InstanceSheet):
    """Edits all pairs as one text. Pairs that are not in the text are removed."""

    edits = True
    path, label, icon = "metadata", "Edit metadata", "braces"
    heading, message = "Metadata of {name}", "The metadata of {name} was saved."
    rule = "os_compute_api:server-metadata:update_all"

    def form(self, data: QueryDict | None = None) -> Form:
        lines = (f"{key}={value}" for key, value in self.instance.metadata.items())
        return MetadataForm(data, initial={"metadata": "\n".join(lines)})

    def save(self, form: Form) -> HttpResponse:
        set_metadata(self.context, self.instance.id, form.cleaned_data["metadata"])
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        own = self.instance
        metadata = form.cleaned_data["metadata"]
        return copied.replacing(copied.METADATA, copied.METADATA_REMOVED, str(own.id), own.metadata, metadata)

    @classmethod
    def why_not(cls, context: RequestContext, instance: Instance, masters: bool) -> str:  # noqa: FBT001 - as in the menu
        return error_of(lambda: check_may_change(context, instance, "update metadata"))


def error_of(check: Callable[[], None]) -> str:
    """Return the error of a service's check as a sentence; empty if it passes."""
    try:
        check()
    except NovellaError as error:
        return plain(error.message)
    return ""
