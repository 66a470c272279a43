"""Snapshots of volumes: list, create, edit, delete and revert."""

import uuid
from collections.abc import Sequence

from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import storage as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import RecordPage, SheetPage, name_of
from portal.dashboard.volumes.forms import VolumeNamesForm
from portal.dashboard.volumes.listing import SNAPSHOTS
from portal.dashboard.volumes.views import VolumePage
from portal.dashboard.words.names import bdi
from provisioning.volumes import selectors, services
from provisioning.volumes.models import Snapshot
from provisioning.volumes.states import VolumeStatus

HOME = "dashboard:volume_snapshots"


class SnapshotPage(RecordPage[Snapshot]):
    """Base of the pages of one snapshot."""

    section = "volume_snapshots"
    back_to = HOME

    def look_up(self, identity: uuid.UUID) -> Snapshot:
        return selectors.snapshot_for(self.context, identity)


class SnapshotList(ListPage):
    """The snapshots of the project's volumes."""

    records = SNAPSHOTS
    lead = "A snapshot is the state of a volume at one time. Revert the volume to it, or create new volumes from it."


class SnapshotCreate(SheetPage, VolumePage):
    """The form for a new snapshot of a volume."""

    rule = services.CreateSnapshot.rule
    submit = "Take snapshot"

    def form(self, data: QueryDict | None = None) -> Form:
        many = self.record.snapshots.count() + 1
        return VolumeNamesForm(data, initial={"name": f"{name_of(self.record)}-{many}"[:255]})

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        request = services.SnapshotRequest(typed["name"], typed["description"], force=True)
        services.CreateSnapshot.begin(self.context, self.record.id, request)
        return self.go(self.back(), message="The snapshot is being taken.")

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.SNAPSHOT, {**form.cleaned_data, "volume_id": str(self.record.id), "force": True})]

    def title(self) -> str:
        return f"Snapshot of {bdi(name_of(self.record))}"

    def about(self) -> str:
        if self.record.status == VolumeStatus.IN_USE:
            return (
                "Its instance keeps running. Data that it has not yet written to the disk is not part of the snapshot."
            )
        return "The current data of the volume. You can revert to it or create volumes from it."


class SnapshotEdit(SheetPage, SnapshotPage):
    """The form for a snapshot's name."""

    edits = True
    rule = "volume:update_snapshot"

    def form(self, data: QueryDict | None = None) -> Form:
        return VolumeNamesForm(data, initial={"name": self.record.name, "description": self.record.description})

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        services.update_snapshot(self.context, self.record.id, name=typed["name"], description=typed["description"])
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        return edit(copied.SNAPSHOT_EDIT, {"snapshot": str(self.record.id)}, changes(form))

    def title(self) -> str:
        return f"Edit {bdi(name_of(self.record))}"


class SnapshotDelete(QuestionPage, SnapshotPage):
    """Asks for confirmation, and deletes a snapshot."""

    rule = services.DeleteSnapshot.rule
    message = "{name} is being deleted."
    consequence = "Its volume, and volumes created from it, do not change. This cannot be undone."

    def do(self) -> None:
        services.DeleteSnapshot.begin(self.context, self.record.id, services.Deletion())


class SnapshotRevert(QuestionPage, SnapshotPage):
    """Asks for confirmation, and reverts a volume to its newest snapshot."""

    rule = services.Revert.rule
    question = "Revert the volume to {name}?"
    label = "Revert"
    message = "The volume is being reverted to {name}."

    def text(self) -> str:
        return f"Data written to {bdi(name_of(self.record.volume))} since then will be lost."

    def do(self) -> None:
        services.Revert.begin(self.context, self.record.volume_id, str(self.record.id))


class SnapshotUnmanage(QuestionPage, SnapshotPage):
    """Asks for confirmation, and deletes the record of a snapshot without its data."""

    rule = services.UnmanageSnapshot.rule
    question = "Unmanage {name}?"
    label = "Unmanage"
    message = "The record of {name} is being deleted."

    def text(self) -> str:
        return (
            f"Its record is deleted. The data stay in the pool as snapshot-{self.record.id} until the volume is "
            "deleted; an operator can create a record of them again."
        )

    def do(self) -> None:
        services.UnmanageSnapshot.begin(self.context, self.record.id, None)
