"""The additional properties of an image: as text, for servers, volumes and hosts, and as digests, for filters."""

import hashlib
from collections.abc import Mapping

FIRMWARE = "hw_firmware_type"
FOUND = "found_firmware"
"""``FIRMWARE``: property with the firmware that the image specifies; ``FOUND``: with the firmware found in its data.

Volumes keep both properties.
"""
NULLABLE = frozenset({"kernel_id", "ramdisk_id"})
"""Properties that may be null, which means unset, as in Glance's ``etc/schema-image.json``."""


def text_of(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the properties that are not null, as text."""
    return {str(name): str(value) for name, value in properties.items() if value is not None}


def digest(value: str) -> str:
    """Return the SHA-256 of a value in hexadecimal, as in ``ImageProperty.digest``."""
    return hashlib.sha256(value.encode()).hexdigest()
