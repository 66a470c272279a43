"""Images of an instance, and instances from an image: image, backup, rebuild, rescue."""

from collections.abc import Iterable, Sequence

from django import forms
from django.http import HttpResponse, QueryDict
from django.utils import timezone

from portal.dashboard.copy_as.calls import Call, Secret
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import Form, OfferedField, WholeNumberField
from portal.dashboard.instances.page import InstanceSheet
from portal.dashboard.words.names import bdi
from provisioning.common.values.unset import UNSET, Unset
from provisioning.compute.actions import rebuild, rescue, snapshot
from provisioning.compute.disks.block_devices import boots_from_volume
from provisioning.compute.selectors.catalog import key_pairs_for
from provisioning.images import selectors as images

KEPT_KEY = "="
"""Value of the choice to keep the current key pair. No key pair can have this name."""


class ImageForm(Form):
    """The name of a new image."""

    name = forms.CharField(max_length=255)


class CreateImage(InstanceSheet):
    """Creates an image of the root disk."""

    path, label, icon, action = "image", "Create image", "camera", "snapshot"
    heading, submit = "Create an image of {name}", "Create image"
    message = "An image of {name} is being created. It appears under Images."

    def form(self, data: QueryDict | None = None) -> Form:
        return ImageForm(data, initial={"name": dated(self.instance.name)})

    def save(self, form: Form) -> HttpResponse:
        snapshot.create_image(self.context, self.instance.id, form.cleaned_data["name"])
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.SERVER_IMAGE, {**form.cleaned_data, "server": str(self.instance.id)})]

    def about(self) -> str:
        what = (
            "Snapshots of its volumes are taken; the image refers to them."
            if boots_from_volume(self.instance)
            else "Its root disk is copied while it runs. Stop it first if the copy must not contain half-written files."
        )
        return f"{super().about()} {what}".strip()


class BackupForm(Form):
    """A backup with its rotation."""

    notes = {"rotation": "older ones of the same type are deleted"}

    name = forms.CharField(max_length=255)
    backup_type = forms.CharField(
        label="Type", max_length=255, initial="daily", help_text="For example daily or weekly."
    )
    rotation = WholeNumberField(label="Backups to keep", min_value=1, initial=7)


class CreateBackup(InstanceSheet):
    """Creates a backup image, and deletes the oldest backups of its type."""

    path, label, icon, action = "backup", "Create backup", "clock-history", "backup"
    heading, submit, message = (
        "Back up {name}",
        "Back up",
        "A backup of {name} is being created. It appears under Images.",
    )

    def form(self, data: QueryDict | None = None) -> Form:
        return BackupForm(data, initial={"name": dated(self.instance.name)})

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        snapshot.create_backup(self.context, self.instance.id, typed["name"], typed["backup_type"], typed["rotation"])
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.SERVER_BACKUP, {**form.cleaned_data, "server": str(self.instance.id)})]


class RebuildForm(Form):
    """The image of a rebuild, and the settings of the new guest."""

    service_fields = {"imageRef": "image"}

    image = OfferedField(widget=forms.Select, error_messages={"required": "Choose an image."})
    key_name = OfferedField(label="SSH key", widget=forms.Select, required=False)
    preserve_ephemeral = forms.BooleanField(label="Keep the ephemeral disks", required=False)


class Rebuild(InstanceSheet):
    """Creates the disks again from an image."""

    path, label, icon, action = "rebuild", "Rebuild", "hammer", "rebuild"
    heading, submit, message = "Rebuild {name}?", "Rebuild", "{name} is being rebuilt."
    consequence = (
        "The guest is stopped, and everything on its root disk is lost. Name, size, addresses and volumes are kept."
    )
    danger = True

    def form(self, data: QueryDict | None = None) -> Form:
        own = self.instance
        form = RebuildForm(data, initial={"image": str(own.image_id or ""), "key_name": KEPT_KEY})
        form.offer("image", image_choices(self.context_images()))
        mine = own.user_id == self.context.user_id  # the keys of a rebuild are those of the instance's user
        keys = [(key.name, key.name) for key in key_pairs_for(self.context)] if mine else []
        kept = f"As now: {bdi(own.key_name)}" if own.key_name else "As now: none"
        form.offer("key_name", [(KEPT_KEY, kept), *keys, ("", "None")])
        if not own.flavor.get("ephemeral_gb"):
            del form.fields["preserve_ephemeral"]
        return form

    def context_images(self) -> list[tuple[str, str]]:
        return [(str(image.id), image.name or str(image.id)) for image in images.usable_images_for(self.context)]

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        key: str | Unset | None = UNSET if typed["key_name"] == KEPT_KEY else typed["key_name"] or None
        request = rebuild.Rebuild(
            typed["image"],
            key_name=key,
            preserve_ephemeral=typed.get("preserve_ephemeral", False),
            writes_volume=True,
        )
        rebuild.RebuildAction.begin(self.context, self.instance.id, request)
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        key = {"key_name": typed["key_name"], "no_key": not typed["key_name"] or None}
        values = {"image": typed["image"], "preserve_ephemeral": typed.get("preserve_ephemeral", False)}
        values |= {} if typed["key_name"] == KEPT_KEY else key
        return [Call(copied.REBUILD, {"server": str(self.instance.id), **values})]


class RescueForm(Form):
    """The image and the password of the rescue system."""

    service_fields = {"rescue_image_ref": "image", "imageRef": "image"}
    notes = {"password": "for the image's login user, if the image sets passwords"}

    image = OfferedField(label="Boot from", widget=forms.Select, required=False)
    password = forms.CharField(
        max_length=255,
        required=False,
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text="Leave it empty to log in with the SSH key of the instance.",
    )


class Rescue(InstanceSheet):
    """Boots from a rescue image."""

    path, label, icon, action = "rescue", "Rescue", "life-preserver", "rescue"
    heading, submit, message = "Rescue {name}", "Start in rescue", "{name} is starting in rescue."
    consequence = (
        "It boots from the image, with its own disk as the second disk, until it is unrescued. Its disk is not changed."
    )

    def form(self, data: QueryDict | None = None) -> Form:
        form = RescueForm(data)
        own = [] if self.instance.image_id is None else [("", "The image that it was created from")]
        form.offer("image", [*own, *((str(image.id), image.name) for image in images.usable_images_for(self.context))])
        return form

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        rescue.rescue(
            self.context, self.instance.id, image_id=typed["image"] or None, password=typed["password"] or None
        )
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        password = Secret("password") if typed["password"] else None
        values = {"image": typed["image"], "password": password}
        return [Call(copied.RESCUE, {"server": str(self.instance.id), **values})]


def dated(name: str) -> str:
    """Return a name with the current time in UTC, within the longest name of an image."""
    return f"{name[:238]}-{timezone.now():%Y%m%d-%H%M}"


def image_choices(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(key, bdi(name)) for key, name in found]
