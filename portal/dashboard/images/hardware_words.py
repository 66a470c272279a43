"""Descriptions of an image's hardware requirements on pages."""

from compute_agent.contract import hardware_properties as known
from provisioning.images.models import Image
from provisioning.images.records.properties import FIRMWARE

TITLES = {"bios": "BIOS", "uefi": "UEFI", "pc": "pc (i440FX)", "tpm-tis": "TIS", "tpm-crb": "CRB"}
FOUND = {"bios": "BIOS", "uefi": "UEFI", "bios or uefi": "BIOS or UEFI"}
SHOWN = ("hw_machine_type", "hw_disk_bus", "hw_vif_model", "hw_video_model")
"""Image properties whose values are shown in lists of images, in addition to firmware, Secure Boot and TPM."""


def summary(image: Image) -> str:
    """Describe the image's requirements in one line; empty if it has none."""
    properties = image.properties
    words = [boots_by(image)]
    if properties.get(known.SECURE_BOOT.image) == "required":
        words.append("Secure Boot")
    if properties.get(known.TPM_VERSION.image):
        words.append(f"TPM {properties[known.TPM_VERSION.image]}")
    words += [str(properties[name]) for name in SHOWN if properties.get(name)]
    return " · ".join(filter(None, words))


def boots_by(image: Image) -> str:
    """Describe the firmware: as the image requires, or as detected in its data."""
    if image.properties.get(FIRMWARE):
        return f"boots with {TITLES.get(str(image.properties[FIRMWARE]), str(image.properties[FIRMWARE]))}"
    return f"boots with {FOUND[image.found_firmware]} (detected)" if image.found_firmware in FOUND else ""
