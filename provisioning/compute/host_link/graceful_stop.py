"""Seconds for the graceful shutdown of a guest (image property ``os_shutdown_timeout``) before it is forced off."""

from django.conf import settings

from provisioning.compute.models import Instance

PROPERTY = "os_shutdown_timeout"
USUAL = 60
"""Seconds, Nova's default."""
LEFT_FOR_THE_REST = 30
"""Seconds of the command's deadline that are reserved for the forced stop."""


def seconds_of(instance: Instance) -> int:
    """Return the seconds for the graceful shutdown, limited by the deadline of the command."""
    text = str(instance.image_properties.get(PROPERTY) or "").strip()
    seconds = int(text) if text.isascii() and text.isdigit() else USUAL
    return min(seconds, max(settings.POWER_TIMEOUT - LEFT_FOR_THE_REST, USUAL))
