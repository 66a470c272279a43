"""Migration of an instance to another host, for operators."""

from collections.abc import Sequence

from django import forms
from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import ChoiceLabel, Form, OfferedField
from portal.dashboard.instances.page import InstanceSheet
from provisioning.compute.actions import migrate as migrations
from provisioning.compute.actions.live_migrate import LiveMigrate as Live
from provisioning.compute.actions.live_migrate import LiveMigration
from provisioning.compute.moves import live
from provisioning.compute.moves.begin import move_request
from provisioning.compute.moves.targets import TargetChoice, target_choices
from provisioning.compute.states import VmState

ANY = ""
TO_HOST = "os_compute_api:os-migrate-server:migrate:host"
TO_HOST_LIVE = "os_compute_api:os-migrate-server:migrate_live:host"


class MigrateForm(Form):
    """The host, for callers who may choose it."""

    service_fields = {"host": "host"}

    host = OfferedField(label="Host", required=False, widget=forms.RadioSelect)


class Migrate(InstanceSheet):
    """Moves the instance to another host; it is stopped while its disks are copied."""

    path, label, icon, action = "migrate", "Migrate", "truck", "migrate"
    heading, submit = "Migrate {name} to another host?", "Migrate"
    message = "{name} moves to another host. Confirm or revert the migration afterwards."

    def form(self, data: QueryDict | None = None) -> Form:
        form = MigrateForm(data, initial={"host": ANY})
        if not self.allows(TO_HOST):
            del form.fields["host"]
            return form
        hosts = target_choices(move_request(self.instance))
        form.offer("host", [(ANY, "The scheduler chooses"), *((host.name, _label(host)) for host in hosts)])
        return form

    def save(self, form: Form) -> HttpResponse:
        migrations.migrate(self.context, self.instance.id, form.cleaned_data.get("host") or None)
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        host = form.cleaned_data.get("host")
        return [
            Call(copied.MIGRATE if host else copied.MIGRATE_ANYWHERE, {"server": str(self.instance.id), "host": host})
        ]

    def about(self) -> str:
        down = (
            "The guest is shut down, its disk is copied, and it is started again with its addresses and volumes."
            if self.instance.vm_state == VmState.ACTIVE
            else "Its disk is copied. It stays stopped."
        )
        return f"{super().about()} {down} The old host keeps everything until you confirm.".strip()


class LiveMigrate(InstanceSheet):
    """Moves the running instance to another host."""

    path, label, icon, action = "live-migrate", "Live migrate", "lightning", "live_migrate"
    heading, submit = "Migrate {name} live?", "Live migrate"
    message = "{name} moves to another host while it runs."

    def form(self, data: QueryDict | None = None) -> Form:
        form = MigrateForm(data, initial={"host": ANY})
        if not self.allows(TO_HOST_LIVE):
            del form.fields["host"]
            return form
        hosts = target_choices(live.move_request(self.instance))
        form.offer("host", [(ANY, "The scheduler chooses"), *((host.name, _label(host)) for host in hosts)])
        return form

    def save(self, form: Form) -> HttpResponse:
        Live.begin(self.context, self.instance.id, LiveMigration(form.cleaned_data.get("host") or ""))
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        host = form.cleaned_data.get("host")
        values = {"host": host, "any_host": not host or None, "block_migration": "auto"}
        return [Call(copied.LIVE_MIGRATE, {"server": str(self.instance.id), **values})]

    def about(self) -> str:
        text = (
            "The instance keeps running while its memory and local disks are copied, and pauses for less than a second"
            " at the end. Its volumes are not copied. Connections inside its networks and through a floating IP"
            " continue; others to external networks end, because they use the address of the present host. If the"
            " migration fails, the instance stays on its host."
        )
        return f"{super().about()} {text}".strip()


def _label(choice: TargetChoice) -> ChoiceLabel:
    css_class = "unfit" if choice.reason else ""
    return ChoiceLabel(choice.name, css_class=css_class, template="dashboard/instances/_target.html", subject=choice)
