"""Attachment and detachment of volumes, from the page of the volume or the instance."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, Result
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.copy_as.kinds import storage
from portal.dashboard.frame.forms import Form
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import SheetPage, name_of
from portal.dashboard.volumes.forms import NEW, AttachForm, AttachToServerForm
from portal.dashboard.volumes.views import PAGE, VolumePage
from portal.dashboard.words.names import bdi
from provisioning.common.errors import ConflictError, NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.detach_volume import detach_volume
from provisioning.compute.actions.new_volumes import create_and_attach
from provisioning.compute.actions.volumes import find_device
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link.guest_agent import has_guest_agent
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.records.names import disk_name
from provisioning.compute.services.file_systems import RULE as LISTS_FILE_SYSTEMS
from provisioning.compute.services.file_systems import file_systems, mount_points
from provisioning.compute.states import VmState
from provisioning.identity import policy
from provisioning.launches.plans.plan import default_disk_name
from provisioning.volumes import selectors
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services.connections.attachments import check_attachable
from provisioning.volumes.states import VolumeStatus

TAKES = (VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED, VmState.SHELVED_OFFLOADED)
OFFERED = 500
MOUNT = "The commands that mount it appear below."


class VolumeAttach(SheetPage, VolumePage):
    """The form to choose the instance for a volume."""

    rule = "os_compute_api:os-volumes-attachments:create"
    submit = "Attach"

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Show the form, or the reason why the volume cannot be attached."""
        check_attachable(self.record)
        return super().get(request)

    def form(self, data: QueryDict | None = None) -> Form:
        has = {each.instance_id for each in self.record.attachments.all()}
        servers = [
            (str(each.id), each.name)
            for each in compute.instances_for(self.context, limit=OFFERED)
            if each.vm_state in TAKES and each.id not in has
        ]
        return AttachForm(data, servers)

    def save(self, form: Form) -> HttpResponse:
        attach_volume(self.context, form.cleaned_data["server"], VolumeToAttach(str(self.record.id)))
        return self.go(self.back(), message=f"{bdi(name_of(self.record))} is being attached.")

    def calls(self, form: Form) -> Sequence[Call]:
        values = {"server": form.cleaned_data["server"], "volume_id": str(self.record.id)}
        return [Call(copied.ATTACHMENT, values)]

    def title(self) -> str:
        return f"Attach {bdi(name_of(self.record))}"

    def about(self) -> str:
        return "The instance gets the disk immediately, without a restart."


class ServerAttach(SheetPage):
    """The form to choose the volume for an instance."""

    section = "instances"
    rule = "os_compute_api:os-volumes-attachments:create"
    submit = "Attach"
    instance: Instance

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the instance, which must be visible to this project. Raises NotFoundError."""
        self.instance = compute.instance_for(self.context, kwargs["instance"])
        return {"project_id": self.instance.project_id}

    def form(self, data: QueryDict | None = None) -> Form:
        free = selectors.visible_volumes(self.context).filter(status=VolumeStatus.AVAILABLE)
        creates = self.allows("volume:create")
        attached = sum(not each.is_root for each in block_devices.volumes_of(self.instance.id)) if creates else 0
        return AttachToServerForm(
            data,
            free.order_by("-created_at")[:OFFERED],
            selectors.visible_types(self.context).order_by("name") if creates else (),
            selectors.default_type(self.instance.project_id) if creates else None,
            creates=creates,
            name=disk_name(default_disk_name(attached), self.instance.name, 0, 1),
        )

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        if typed["volume"] == NEW:
            return self._create(typed)
        request = VolumeToAttach(typed["volume"], delete_on_termination=typed["delete_on_termination"])
        attach_volume(self.context, self.instance.id, request)
        return self.go(self.back(), message=f"The volume is being attached. {MOUNT}")

    def _create(self, typed: Mapping[str, Any]) -> HttpResponse:
        policy.enforce(self.context, "volume:create")
        request = VolumeRequest(size_gb=typed["size"], name=typed["name"], volume_type=typed.get("volume_type", ""))
        volume = create_and_attach(
            self.context, self.instance.id, request, delete_on_termination=typed["delete_on_termination"]
        )
        if volume.status == VolumeStatus.ERROR:
            return self.go(
                PAGE, volume.id, message=f"{bdi(name_of(volume))} could not be created.", level=messages.ERROR
            )
        return self.go(
            self.back(), message=f"{bdi(name_of(volume))} is being created and will then be attached. {MOUNT}"
        )

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        values = {"server": str(self.instance.id), "delete_on_termination": typed["delete_on_termination"]}
        if typed["volume"] != NEW:
            return [Call(copied.ATTACHMENT, {**values, "volume_id": typed["volume"]})]
        volume = Call(storage.VOLUME, {name: typed.get(name) for name in ("name", "size", "volume_type")})
        return [volume, Call(copied.ATTACHMENT, {**values, "volume_id": Result(volume)})]

    def title(self) -> str:
        return f"Attach a volume to {bdi(self.instance.name)}"

    def back(self) -> str:
        return reverse("dashboard:instance_disks", args=[self.instance.id])


class VolumeDetach(QuestionPage, VolumePage):
    """Asks for confirmation, and detaches a volume from an instance."""

    rule = "os_compute_api:os-volumes-attachments:delete"
    question = "Detach {name} from {server}?"
    label = "Detach"
    message = "{name} is being detached."
    stays = True

    def find(self) -> None:
        self.server = compute.instance_for(self.context, self.kwargs["instance"])

    def words(self) -> Mapping[str, object]:
        return {**super().words(), "server": bdi(self.server.name)}

    def text(self) -> str:
        """Return the consequence. Raises ConflictError for a root disk."""
        device = find_device(self.server, str(self.record.id))
        if device.is_root:
            name = bdi(name_of(self.record))
            raise ConflictError(f"{bdi(self.server.name)} boots from {name}, so it cannot be detached.")
        advice = "Unmount its file systems in the instance first: otherwise unwritten data is lost."
        return f"{self._mounted(self.server, device)}{advice}"

    def do(self) -> None:
        detach_volume(self.context, self.server.id, str(self.record.id))

    def _mounted(self, server: Instance, device: BlockDevice) -> str:
        """Return a sentence about the volume's mount points if the guest agent reports any."""
        own = {"project_id": server.project_id, "user_id": server.user_id}
        if not has_guest_agent(server) or not self.allows(LISTS_FILE_SYSTEMS, own):
            return ""
        try:
            mounts = mount_points(file_systems(self.context, server.id), device.device_name)
        except NovellaError:
            return ""
        return f"It is mounted at {', '.join(bdi(each) for each in mounts)}. " if mounts else ""

    def back(self) -> str:
        """Return the page from which the user came: the page of the instance or of the volume."""
        if self.request.GET.get("from") == "server":
            return reverse("dashboard:instance_disks", args=[self.kwargs["instance"]])
        return super().back()
