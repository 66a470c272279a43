"""How long a guest may take to shut down by itself before it is forced (``os_shutdown_timeout`` of its image)."""

from django.conf import settings

from provisioning.compute.models import Instance

PROPERTY = "os_shutdown_timeout"
USUAL = 60
"""Seconds, as Nova's default."""
LEFT_FOR_THE_REST = 30
"""Seconds of the deadline of a stop that are not the guest's."""


def seconds_of(instance: Instance) -> int:
    """Return the seconds that the guest has; no more than its command may take."""
    said = str(instance.image_properties.get(PROPERTY) or "").strip()
    wanted = int(said) if said.isascii() and said.isdigit() else USUAL
    return min(wanted, max(settings.POWER_TIMEOUT - LEFT_FOR_THE_REST, USUAL))
