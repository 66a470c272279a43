"""References to images in commands for hosts."""

from collections.abc import Mapping

from compute_agent.contract.build import ImageRef
from provisioning.images.models import Image
from provisioning.images.records.properties import text_of


def image_ref(image: Image, properties: Mapping[str, str] | None = None) -> ImageRef:
    """Return the contract's image reference; ``properties`` replace those of the image."""
    return ImageRef(
        id=str(image.id),
        name=image.name,
        disk_format=image.disk_format or "",
        size=image.size or 0,
        hash_algo=image.os_hash_algo or "",
        hash_value=image.os_hash_value or "",
        min_disk=image.min_disk,
        min_ram=image.min_ram,
        properties=text_of(image.properties if properties is None else properties),
    )
