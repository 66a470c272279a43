"""The form for the hardware requirements of an image."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpResponse, QueryDict

from compute_agent.contract import hardware_properties as known
from compute_agent.contract.hardware_properties import Property
from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds.image import properties_changed
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form, OfferedField
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.images.hardware_words import FOUND, TITLES
from portal.dashboard.images.views import ImagePage
from portal.dashboard.words.names import bdi
from portal.dashboard.words.plain import plain
from provisioning.common.errors import NovellaError
from provisioning.compute.services.image_hardware import set_hardware
from provisioning.images import selectors
from provisioning.images.models import Image

GROUPS: Mapping[str, Mapping[str, Property]] = {
    "Boot": {
        "Firmware": known.FIRMWARE,
        "Secure Boot": known.SECURE_BOOT,
        "Machine type": known.MACHINE,
        "TPM": known.TPM_VERSION,
        "TPM model": known.TPM_MODEL,
        "Operating system": known.OS_TYPE,
    },
    "Disks and network": {
        "Disk bus": known.DISK_BUS,
        "SCSI model": known.SCSI_MODEL,
        "CD-ROM bus": known.CDROM_BUS,
        "Network card": known.VIF_MODEL,
        "Multiqueue": known.MULTIQUEUE,
    },
    "Screen and input": {
        "Video": known.VIDEO_MODEL,
        "Input bus": known.INPUT_BUS,
        "Pointer": known.POINTER,
        "Sound": known.SOUND,
    },
    "Processor and agent": {
        "CPU mode": known.CPU_MODE,
        "Hide the hypervisor": known.HIDE,
        "Watchdog": known.WATCHDOG,
        "Config drive": known.CONFIG_DRIVE,
        "Guest agent": known.AGENT,
        "Require quiesced snapshots": known.QUIESCE,
    },
}
OPEN = "Default"


class HardwareForm(Form):
    """The form with a choice for each property; the host chooses the value of a property without a choice."""

    focuses = False

    def __init__(self, data: QueryDict | None, image: Image) -> None:
        super().__init__(data, initial={name: image.properties.get(name) or "" for name in _PROPERTIES})
        for label, known_property in _ALL.items():
            self.fields[known_property.image] = OfferedField(label=label, required=False, widget=forms.Select)
            self.offer(known_property.image, _choices(known_property, image))

    def message_of(self, error: NovellaError) -> str:
        """Replace names of properties in an error by the labels of the page."""
        reason = error.message.partition(": ")[2] or error.message
        for label, known_property in _ALL.items():
            reason = reason.replace(known_property.image, label)
        return plain(reason[:1].upper() + reason[1:])

    @property
    def groups(self) -> list[tuple[str, list[forms.BoundField]]]:
        """The fields grouped under their headings."""
        return [(title, [self[each.image] for each in group.values()]) for title, group in GROUPS.items()]


class ImageHardware(FormPage, ImagePage):
    """The hardware requirements of an image."""

    edits = True
    rule = "modify_image"
    template = "dashboard/images/hardware.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return HardwareForm(data, self._image())

    def save(self, form: Form) -> HttpResponse:
        image = set_hardware(self.context, self.kwargs["image_id"], form.cleaned_data)
        return self.go(
            "dashboard:images", message=f"New instances of {bdi(image.name or image.id)} have this hardware."
        )

    def calls(self, form: Form) -> Sequence[Call]:
        image = self._image()
        changed = {name: value for name, value in changes(form).items() if value or name in image.properties}
        return properties_changed(str(image.id), changed) if changed else []

    def extra_context(self) -> Mapping[str, Any]:
        image = self._image()
        return {"image": image, "found": FOUND.get(image.found_firmware, "")}

    def _image(self) -> Image:
        return selectors.image_for(self.context, self.kwargs["image_id"])


_ALL = {label: each for group in GROUPS.values() for label, each in group.items()}
_PROPERTIES = [each.image for each in _ALL.values()]


def _choices(known_property: Property, image: Image) -> list[tuple[str, str]]:
    """Return the values that hosts support, and the image's current value even if hosts do not support it."""
    values = ("yes", "no") if known_property.kind == "switch" else known_property.values
    has = str(image.properties.get(known_property.image) or "")
    nothing = (
        f"As detected: {FOUND[image.found_firmware]}"
        if known_property is known.FIRMWARE and image.found_firmware
        else OPEN
    )
    odd = [(has, has)] if has and has not in values else []
    return [("", nothing), *((value, TITLES.get(value, value)) for value in values), *odd]
