"""Whether a server's host meets the requirements of another image, and which firmware an image boots with."""

from collections.abc import Mapping

from provisioning.common.errors import InvalidInputError
from provisioning.compute.flavors.guest_hardware import host_needs
from provisioning.compute.models import Instance
from provisioning.compute.selectors.host_rows import host_states
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.images.records.properties import FIRMWARE, FOUND, text_of
from provisioning.scheduler import HostNeed
from provisioning.scheduler.image_demands import offers

UEFI = "COMPUTE_FIRMWARE_UEFI"
"""Trait of hosts on which guests can boot with UEFI."""


def check_host_offers(instance: Instance, properties: Mapping[str, object]) -> None:
    """Raise InvalidInputError for ``imageRef`` when the server's host does not meet the requirements of an image.

    A server without a host passes, because the scheduler will choose a suitable one.
    """
    missing = missing_here(instance, properties)
    if missing is not None:
        what = f"has {missing.words}, which is forbidden" if missing.forbidden else f"does not offer {missing.words}"
        raise InvalidInputError(f"The server's host {what} ({missing.asked}).", field="imageRef")


def missing_here(instance: Instance, properties: Mapping[str, object]) -> HostNeed | None:
    """Return the first requirement of an image that the server's host does not meet, or None."""
    needs = host_needs(properties, instance.flavor)
    if not needs or instance.host_id is None:
        return None
    hosts = host_states({"traits"}, only=instance.host_id)
    return next((need for need in needs for host in hosts if not offers(host, need)), None)


def boot_properties(image: Image) -> dict[str, str]:
    """Return an image's properties for a guest that boots from it, including the firmware detected in its data.

    The owner's property takes precedence; if no host supports UEFI, the detected firmware is ignored.
    """
    return with_detected(text_of(image.properties), image.found_firmware)


def boot_properties_of_volume(metadata: Mapping[str, object]) -> dict[str, str]:
    """Return the properties for a guest that boots from a volume, from the volume's image metadata."""
    texts = text_of(metadata)
    return with_detected(texts, texts.pop(FOUND, ""))


def with_detected(properties: dict[str, str], found: str) -> dict[str, str]:
    if found != "uefi" or properties.get(FIRMWARE) or not _any_host_has(UEFI):
        return properties
    return {**properties, FIRMWARE: found}


def _any_host_has(trait: str) -> bool:
    kinds = Host.objects.order_by().values_list("traits", flat=True).distinct()
    return any(trait in traits for traits in kinds)
