"""Backups of volumes: list, create, restore and delete."""

import uuid
from collections.abc import Sequence

from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import storage as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import RecordPage, SheetPage, name_of
from portal.dashboard.volumes.forms import BackupForm, RestoreForm
from portal.dashboard.volumes.listing import BACKUPS
from portal.dashboard.volumes.views import PAGE, VolumePage
from portal.dashboard.words.names import bdi
from provisioning.volumes import selectors
from provisioning.volumes.models import Backup
from provisioning.volumes.records.requests import BackupRequest
from provisioning.volumes.selectors import copies
from provisioning.volumes.services import Deletion
from provisioning.volumes.services.backups.backup_restores import Restore, RestoreRequest
from provisioning.volumes.services.backups.backups import CreateBackup, DeleteBackup
from provisioning.volumes.states import BackupStatus, VolumeStatus

HOME = "dashboard:volume_backups"


class BackupPage(RecordPage[Backup]):
    """Base of the pages of one backup."""

    section = "volume_backups"
    back_to = HOME

    def look_up(self, identity: uuid.UUID) -> Backup:
        return copies.backup_for(self.context, identity)


class BackupList(ListPage):
    """The project's backups."""

    records = BACKUPS
    lead = "Copies of volumes that are kept when the volumes are deleted."


class BackupCreate(SheetPage, VolumePage):
    """The form for a new backup of a volume."""

    rule = CreateBackup.rule
    submit = "Back up"

    def form(self, data: QueryDict | None = None) -> Form:
        rows = copies.visible_backups(self.context).filter(volume_id=self.record.id)
        there = rows.filter(status=BackupStatus.AVAILABLE).exists()
        initial = {"name": f"{name_of(self.record)}-{rows.count() + 1}"[:255]}
        return BackupForm(data, has_backups=there, initial=initial)

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        incremental = typed.get("incremental", False)
        request = BackupRequest(typed["name"], typed["description"], incremental=incremental, force=True)
        CreateBackup.begin(self.context, self.record.id, request)
        return self.go(self.back(), message="The backup is being written.")

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.BACKUP, {**form.cleaned_data, "volume_id": str(self.record.id), "force": True})]

    def title(self) -> str:
        return f"Back up {bdi(name_of(self.record))}"

    def about(self) -> str:
        return "A copy outside the volume's pool, kept when the volume is deleted. The volume can be in use."


class BackupRestore(SheetPage, BackupPage):
    """The form to choose where a backup is restored to."""

    rule = Restore.rule
    submit = "Restore"

    def form(self, data: QueryDict | None = None) -> Form:
        rows = selectors.visible_volumes(self.context)
        fit = rows.filter(status=VolumeStatus.AVAILABLE, size_gb__gte=self.record.size_gb)
        return RestoreForm(data, fit.order_by("name", "id"))

    def save(self, form: Form) -> HttpResponse:
        target = form.cleaned_data["target"]
        restored = Restore.begin(self.context, self.record.id, RestoreRequest(target))
        return self.go(PAGE, restored.volume.id, message=f"{bdi(name_of(self.record))} is being restored.")

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.RESTORE, {"backup": str(self.record.id), "volume_id": form.cleaned_data["target"]})]

    def title(self) -> str:
        return f"Restore {bdi(name_of(self.record))}"


class BackupDelete(QuestionPage, BackupPage):
    """Asks for confirmation, and deletes a backup."""

    rule = DeleteBackup.rule
    message = "{name} is being deleted."
    consequence = "This cannot be undone."

    def do(self) -> None:
        DeleteBackup.begin(self.context, self.record.id, Deletion())
