"""The additional properties of an image as text, for servers, volumes and hosts that keep a copy."""

from collections.abc import Mapping

NULLABLE = frozenset({"kernel_id", "ramdisk_id"})
"""Properties that may be null, which means unset; Glance's ``etc/schema-image.json`` has these two."""


def text_of(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the properties without those that are null."""
    return {str(name): str(value) for name, value in properties.items() if value is not None}
