"""The additional properties of an image as text, for servers, volumes and hosts that keep a copy."""

from collections.abc import Mapping

FIRMWARE = "hw_firmware_type"
FOUND = "found_firmware"
"""The firmware by which an image says that it boots, and by which its data does; volumes keep both of their image."""
NULLABLE = frozenset({"kernel_id", "ramdisk_id"})
"""Properties that may be null, which means unset; Glance's ``etc/schema-image.json`` has these two."""


def text_of(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the properties without those that are null."""
    return {str(name): str(value) for name, value in properties.items() if value is not None}
