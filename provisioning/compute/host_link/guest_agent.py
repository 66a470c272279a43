"""Image properties about the programs of a guest: its guest agent, and the time for its graceful shutdown before a hard
stop."""

from django.conf import settings
from oslo_utils import strutils

from provisioning.common.errors import ConflictError
from provisioning.compute.models import Instance

PROPERTY = "hw_qemu_guest_agent"

SHUTDOWN_TIMEOUT = "os_shutdown_timeout"
USUAL = 60
"""Seconds, Nova's default."""
LEFT_FOR_THE_REST = 30
"""Seconds of the command's deadline that are reserved for the forced stop."""


def has_guest_agent(instance: Instance) -> bool:
    """Whether the server's image declares a guest agent."""
    return bool(strutils.bool_from_string(instance.image_properties.get(PROPERTY, "")))


def check_guest_agent(instance: Instance, cannot: str) -> None:
    """Raise ConflictError without a guest agent; ``cannot`` is the start of the message."""
    if not has_guest_agent(instance):
        raise ConflictError(f"{cannot}: the server's image has no guest agent (property {PROPERTY}).")


def shutdown_seconds(instance: Instance) -> int:
    """Return the seconds for the graceful shutdown, limited by the deadline of the command."""
    text = str(instance.image_properties.get(SHUTDOWN_TIMEOUT) or "").strip()
    seconds = int(text) if text.isascii() and text.isdigit() else USUAL
    return min(seconds, max(settings.POWER_TIMEOUT - LEFT_FOR_THE_REST, USUAL))
