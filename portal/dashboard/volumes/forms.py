"""Forms of volumes, snapshots, backups and transfers."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from portal.dashboard.frame.forms import ChoiceLabel, OfferedField, WholeNumberField
from portal.dashboard.records.refusals import RecordForm
from portal.dashboard.volumes.rows import type_name
from portal.dashboard.words.names import bdi
from provisioning.volumes.models import Backup, Volume, VolumeType
from provisioning.volumes.selectors.types import DEFAULT

EMPTY, IMAGE, SNAPSHOT, VOLUME, BACKUP = "empty", "image", "snapshot", "volume", "backup"
SOURCES = {
    EMPTY: ChoiceLabel("Nothing", "an empty disk, to be formatted by its instance", icon="square"),
    IMAGE: ChoiceLabel("An image", "a disk that an instance can start from", icon="disc"),
    SNAPSHOT: ChoiceLabel("A snapshot", "the data of a volume at that time", icon="camera"),
    VOLUME: ChoiceLabel("Another volume", "its current data", icon="device-hdd"),
    BACKUP: ChoiceLabel("A backup", "the backed-up data, in a new volume", icon="archive"),
}
NEW = "new"
"""The choice of creating a new volume for an instance."""
FIELD_OF = {IMAGE: "image_id", SNAPSHOT: "snapshot_id", VOLUME: "source_volume_id", BACKUP: "backup_id"}
"""Source → field of ``VolumeRequest``."""

SIZE_HELP = "Leave it empty to use the size of the snapshot, volume or backup."
NO_SIZE = "Enter a size: this source has no size."


def sized(record: Volume | Backup) -> str:
    """Format a choice: name and size."""
    return f"{bdi(record)} ({record.size_gb} GiB)"


def type_choices(types: Iterable[VolumeType], default_type: VolumeType | None) -> list[tuple[str, str]]:
    """Return the choices of a new volume's type, with the default first."""
    names = [(each.name, type_name(each)) for each in types if each.name != DEFAULT]
    name = "" if default_type is None or default_type.name == DEFAULT else f" ({type_name(default_type)})"
    return [("", f"Default{name}"), *names]


class VolumeNamesForm(RecordForm):
    """Name and description of a volume or snapshot."""

    notes = {"description": "for people"}

    name = forms.CharField(max_length=255, required=False, widget=forms.TextInput({"placeholder": "data"}))
    description = forms.CharField(max_length=255, required=False)


class NewVolumeForm(VolumeNamesForm):
    """A new volume: its source, size and type."""

    notes = {"description": "for people", "size": "GiB"}
    service_fields = {
        "size_gb": "size",
        "image_id": IMAGE,
        "imageRef": IMAGE,
        "snapshot_id": SNAPSHOT,
        "source_volume_id": VOLUME,
        "source_volid": VOLUME,
        "backup_id": BACKUP,
    }

    source = OfferedField(label="Source", initial=EMPTY)
    image = OfferedField(required=False, widget=forms.Select)
    snapshot = OfferedField(required=False, widget=forms.Select)
    volume = OfferedField(label="Volume", required=False, widget=forms.Select)
    backup = OfferedField(required=False, widget=forms.Select)
    size = WholeNumberField(min_value=1, required=False, help_text=SIZE_HELP)
    volume_type = OfferedField(label="Type", required=False, widget=forms.Select)
    availability_zone = OfferedField(label="Zone", required=False, widget=forms.Select)
    field_order = ("name", "source", IMAGE, SNAPSHOT, VOLUME, BACKUP, "size", "volume_type", "availability_zone")

    def __init__(
        self,
        data: QueryDict | None,
        offered: Mapping[str, Sequence[tuple[str, str]]],
        types: Iterable[VolumeType],
        default_type: VolumeType | None,
        zones: Iterable[str],
        initial: Mapping[str, Any],
    ) -> None:
        """``offered``: kind of source → choices; a kind without choices is omitted."""
        super().__init__(data, initial={"size": 10, **initial})
        kinds = [EMPTY, *(kind for kind in FIELD_OF if offered.get(kind))]
        self.offer("source", [(kind, SOURCES[kind]) for kind in kinds])
        for kind in FIELD_OF:
            if kind in kinds:
                self.offer(kind, offered[kind])
            else:
                del self.fields[kind]
        self.offer("volume_type", type_choices(types, default_type))
        places = sorted(set(zones))
        self.offer("availability_zone", [("", "Any"), *((each, each) for each in places)])
        if len(places) < 2:
            del self.fields["availability_zone"]

    def clean(self) -> dict[str, Any]:
        """Keep only the chosen source; without a source a size is required."""
        typed = super().clean() or self.cleaned_data
        kind = typed.get("source", EMPTY)
        typed["source_id"] = typed.get(kind, "") if kind != EMPTY else ""
        if kind != EMPTY and not typed["source_id"]:
            self.add_error(kind if kind in self.fields else "source", "Choose one.")
        if kind in {EMPTY, IMAGE} and not typed.get("size") and "size" not in self.errors:
            self.add_error("size", NO_SIZE)
        return typed


class EditVolumeForm(VolumeNamesForm):
    """The attributes that can be edited in any state."""

    bootable = forms.BooleanField(required=False, help_text="An instance can start from it.")
    read_only = forms.BooleanField(
        label="Read only", required=False, help_text="Instances cannot write to it. Existing attachments do not change."
    )


class ExtendForm(RecordForm):
    """A volume's new size."""

    notes = {"size": "GiB"}
    service_fields = {"size_gb": "size", "new_size": "size"}

    size = WholeNumberField(label="New size", min_value=1)


class AttachForm(RecordForm):
    """The instance to attach a volume to."""

    service_fields = {"instance_id": "server", "volumeId": "server", "volume_id": "server"}

    server = OfferedField(label="Instance", widget=forms.Select, error_messages={"required": "Choose an instance."})

    def __init__(self, data: QueryDict | None, servers: Sequence[tuple[str, str]]) -> None:
        super().__init__(data)
        self.offer("server", servers, nothing="The project has no instance that it can be attached to.")


class AttachToServerForm(RecordForm):
    """The volume to attach to an instance."""

    service_fields = {"volumeId": "volume", "volume_id": "volume", "size_gb": "size"}

    volume = OfferedField(label="Volume", error_messages={"required": "Choose a volume."})
    name = forms.CharField(label="Name of the new volume", max_length=255, required=False)
    size = WholeNumberField(label="Size of the new volume", min_value=1, required=False, initial=10)
    volume_type = OfferedField(label="Type of the new volume", required=False, widget=forms.Select)
    delete_on_termination = forms.BooleanField(
        label="Delete it with the instance",
        required=False,
        help_text="Otherwise the volume is kept when the instance is deleted.",
    )
    notes = {"size": "GiB"}

    def __init__(
        self,
        data: QueryDict | None,
        volumes: Iterable[Volume],
        types: Iterable[VolumeType] = (),
        default_type: VolumeType | None = None,
        *,
        creates: bool,
        name: str = "",
    ) -> None:
        """``creates``: whether a new volume, of one of the ``types``, is offered as well, with a suggested ``name``."""
        offered: list[tuple[str, ChoiceLabel | str]] = [(str(each.id), sized(each)) for each in volumes]
        if creates:
            offered.insert(0, (NEW, ChoiceLabel("A new volume", "created and attached in one step", icon="plus-lg")))
        super().__init__(data, initial={"volume": next((key for key, _ in offered), ""), "name": name})
        self.offer("volume", offered, nothing="No volume of the project is available.")
        choices = type_choices(types, default_type)
        self.offer("volume_type", choices)
        if not creates:
            del self.fields["name"], self.fields["size"]
        if not creates or len(choices) == 1:
            del self.fields["volume_type"]

    def clean(self) -> dict[str, Any]:
        """Require a size for a new volume."""
        typed = super().clean() or self.cleaned_data
        if typed.get("volume") == NEW and not typed.get("size") and "size" not in self.errors:
            self.add_error("size", "Enter the size of the new volume.")
        return typed


class RetypeForm(RecordForm):
    """A volume's new type."""

    service_fields = {"new_type": "volume_type"}

    volume_type = OfferedField(label="New type", widget=forms.Select)
    on_demand = forms.BooleanField(
        label="Migrate if necessary",
        required=False,
        help_text="The data is copied to another pool if the new type does not allow the current one.",
    )

    def __init__(self, data: QueryDict | None, types: Iterable[VolumeType], now: uuid.UUID | None) -> None:
        super().__init__(data)
        others = [(each.name, type_name(each)) for each in types if each.id != now]
        self.offer("volume_type", others, nothing="There is no other type.")


class UploadForm(RecordForm):
    """The image to create from a volume."""

    service_fields = {"image_name": "name"}

    name = forms.CharField(label="Name of the image", max_length=255)
    disk_format = OfferedField(label="Format", widget=forms.Select, initial="qcow2")

    def __init__(self, data: QueryDict | None, *, initial: dict[str, Any]) -> None:
        super().__init__(data, initial=initial)
        self.offer("disk_format", [("qcow2", "qcow2"), ("raw", "raw")])


class BackupForm(VolumeNamesForm):
    """A new backup."""

    incremental = forms.BooleanField(
        required=False, help_text="Only changes since the newest backup, which is also needed to restore it."
    )

    def __init__(self, data: QueryDict | None, *, has_backups: bool, initial: dict[str, Any]) -> None:
        super().__init__(data, initial={"incremental": has_backups, **initial})
        if not has_backups:
            del self.fields["incremental"]


class RestoreForm(RecordForm):
    """The target of a restore."""

    service_fields = {"volume_id": "target"}

    target = OfferedField(label="Restore to", required=False, widget=forms.Select)

    def __init__(self, data: QueryDict | None, volumes: Iterable[Volume]) -> None:
        super().__init__(data)
        there = [(str(each.id), f"{bdi(each)} ({each.size_gb} GiB): its data is lost") for each in volumes]
        self.offer("target", [("", "A new volume"), *there])


class TransferForm(RecordForm):
    """The transfer of a volume to another project."""

    name = forms.CharField(max_length=255, required=False)
    with_snapshots = forms.BooleanField(label="Also transfer its snapshots", required=False, initial=True)


class AcceptForm(RecordForm):
    """The id and key of a transfer, received from its creator."""

    transfer_id = forms.UUIDField(label="Transfer ID", error_messages={"invalid": "This is not a transfer ID."})
    key = forms.CharField(label="Authorization key", max_length=255)
    service_fields = {"auth_key": "key", "transfer": "transfer_id"}
