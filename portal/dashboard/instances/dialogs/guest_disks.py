"""Mounts a volume in the guest, and extends its file system, through the guest agent."""

import re
from dataclasses import dataclass, replace

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from compute_agent.contract.guest_disks import LONGEST_DIRECTORY
from portal.dashboard.frame.forms import MONO, Form
from portal.dashboard.instances.page import InstanceDialog, InstanceSheet
from portal.dashboard.records.questions import Question, QuestionPage
from portal.dashboard.records.views import name_of
from portal.dashboard.words.names import bdi
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.guest_disks import ExtendFileSystem, MountVolume, VolumeToMount, inspect_disk
from provisioning.compute.launch.mounts import SHOWN_SERIAL, mounted_disks
from provisioning.volumes.models import Volume
from provisioning.volumes.selectors import volume_for

SERIAL = 20
"""Characters of a volume's id that a guest sees as the disk's serial number: the limit of virtio and ATA."""
LONGEST_NAME = 32
_BY_ID = {
    "virtio": "virtio-",
    "scsi": "scsi-0QEMU_QEMU_HARDDISK_",
    "sata": "ata-QEMU_HARDDISK_",
    "ide": "ata-QEMU_HARDDISK_",
}
"""Bus → prefix of the link that udev creates in ``/dev/disk/by-id``."""

_EXTEND_ROOT = (
    'sudo growpart "$(readlink -f "$disk")" 1',
    'sudo resize2fs "$(lsblk -nrpo NAME "$disk" | sed -n 2p)"  # ext4',
    "sudo xfs_growfs /  # XFS",
)


class _InGuest(InstanceDialog):
    """Base of the dialogs for a volume in the guest."""

    in_menu = False

    @property
    def volume(self) -> Volume:
        """Return the volume, which must be visible to this project. Raises NotFoundError."""
        return volume_for(self.context, self.kwargs["volume_id"])

    def back(self) -> str:
        return reverse("dashboard:instance_disks", args=[self.kwargs["instance_id"]])


class MountForm(Form):
    """The directory of the guest."""

    directory = forms.CharField(
        label="Directory",
        max_length=LONGEST_DIRECTORY,
        widget=forms.TextInput({"class": MONO, "autocapitalize": "none"}),
        help_text="A directory of the guest that does not exist yet, or is empty.",
    )


class MountInGuest(_InGuest, InstanceSheet):
    """Shows how the guest agent will mount the volume, and lets the agent mount it."""

    path, label, icon, action = "volumes/<uuid:volume_id>/mount", "Mount", "hdd", "mount_volume"
    submit = "Mount"
    content = ""

    def get(self, request: HttpRequest, **_: object) -> HttpResponse:
        """Examine the disk in the guest. Raises ConflictError if it cannot be mounted, UnavailableError."""
        disk = inspect_disk(self.context, self.instance.id, str(self.volume.id))
        device, kind = bdi(disk.device), bdi(disk.kind)
        if disk.mount_point:
            raise ConflictError(f"{device} is already mounted at {bdi(disk.mount_point)}.")
        if disk.content == "other":
            data = f"data ({kind})" if disk.kind else "data that is not a file system"
            raise ConflictError(f"{device} has {data}, so the guest agent does not mount it. Use the commands.")
        if disk.content == "empty":
            self.content = f"The guest has it as {device}. It is empty and will be formatted with ext4."
        else:
            self.content = f"The guest has it as {device}. It has a file system ({kind}), which is kept."
        return super().get(request)

    def form(self, data: QueryDict | None = None) -> Form:
        volume = self.volume
        planned = mounted_disks(self.instance.user_data).get(str(volume.id)[:SHOWN_SERIAL], "")
        return MountForm(data, initial={"directory": directory_for(str(volume.id), volume.name, planned)})

    def save(self, form: Form) -> HttpResponse:
        volume = self.volume
        MountVolume.begin(self.context, self.instance.id, VolumeToMount(str(volume.id), form.cleaned_data["directory"]))
        return self.go(self.back(), message=f"{bdi(name_of(volume))} is being mounted in {bdi(self.instance.name)}.")

    def title(self) -> str:
        return f"Mount {bdi(name_of(self.volume))} in {bdi(self.instance.name)}"

    def about(self) -> str:
        unknown = "If it is empty, it will be formatted with ext4. A volume with data is never formatted."
        always = "It is mounted now, and at every start by /etc/fstab."
        return " ".join(filter(None, (super().about(), self.content or unknown, always)))


class ExtendInGuest(QuestionPage, _InGuest):
    """Asks for confirmation, and lets the guest agent extend the file system of a volume."""

    path, label, icon = "volumes/<uuid:volume_id>/extend-file-system", "Extend the file system", "arrows-angle-expand"
    action = "extend_file_system"
    question = "Extend the file system of {name}?"
    message = "The file system of {name} is being extended."
    danger = False
    stays = True

    def find(self) -> None:
        self.record = self.volume

    def as_question(self) -> Question:
        return replace(super().as_question(), label="Extend")

    def text(self) -> str:
        """Examine the disk in the guest. Raises ConflictError if it is not mounted, UnavailableError."""
        disk = inspect_disk(self.context, self.instance.id, str(self.record.id))
        if not disk.mount_point:
            raise ConflictError(f"{bdi(disk.device)} is not mounted, so its file system cannot be extended.")
        kind, place = bdi(disk.kind), bdi(disk.mount_point)
        size = self.record.size_gb
        return f"The file system ({kind}) at {place} grows to the {size} GiB of the volume. It stays mounted."

    def do(self) -> None:
        ExtendFileSystem.begin(self.context, self.instance.id, str(self.record.id))


@dataclass(frozen=True, slots=True)
class Guide:
    """Commands for a shell of the guest; ``is_new``: the volume was attached a short time ago."""

    serial: str
    mount: str
    """Empty for the disk that the guest boots from."""
    extend: str
    is_new: bool = False
    directory: str = ""
    """Directory at which cloud-init mounts the volume; empty: it does not."""


def guide_for(
    volume_id: str, name: str, bus: str, *, is_root: bool, is_new: bool = False, directory: str = ""
) -> Guide:
    """Return the commands for a volume on a bus. They format only a disk without any signature.

    ``directory``: where cloud-init mounts the volume, empty: nowhere.
    """
    serial = volume_id[:SERIAL]
    disk = _path(serial, bus)
    if is_root:
        return Guide(serial, "", "\n".join((f"disk={disk}", *_EXTEND_ROOT)), is_new)
    folder = directory_for(volume_id, name, directory)
    entry = f'UUID=$(sudo blkid -s UUID -o value "$disk") {folder} auto defaults,nofail 0 2'
    mount = (
        f"disk={disk}",
        'sudo blkid -p "$disk"; [ $? -eq 2 ] && sudo mkfs.ext4 "$disk"  # only if it is empty',
        f"sudo mkdir -p {folder}",
        f'echo "{entry}" | sudo tee -a /etc/fstab',
        f"sudo mount {folder}",
    )
    extend = (f"sudo resize2fs {disk}  # ext4", f"sudo xfs_growfs {folder}  # XFS")
    return Guide(serial, "\n".join(mount), "\n".join(extend), is_new, directory)


def directory_for(volume_id: str, name: str, directory: str = "") -> str:
    """Return the directory at which a volume is mounted: ``directory`` if cloud-init mounts it there."""
    return directory or f"/mnt/{_slug(name) or volume_id[:8]}"


def _slug(name: str) -> str:
    """Return a name without characters that a shell or ``/etc/fstab`` interprets."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_NAME].strip("-")


def _path(serial: str, bus: str) -> str:
    if bus in _BY_ID:
        return f"/dev/disk/by-id/{_BY_ID[bus]}{serial}"
    return f"\"$(lsblk -dnpo NAME,SERIAL | awk '$2 ~ /^{serial}/ {{ print $1 }}')\""
