"""The agent inside a guest, which some actions need. As in Nova, an image property declares it."""

from oslo_utils import strutils

from provisioning.common.errors import ConflictError
from provisioning.compute.models import Instance

PROPERTY = "hw_qemu_guest_agent"


def has_guest_agent(instance: Instance) -> bool:
    """Whether the server's image declares a guest agent."""
    return bool(strutils.bool_from_string(instance.image_properties.get(PROPERTY, "")))


def check_guest_agent(instance: Instance, cannot: str) -> None:
    """Raise ConflictError without a guest agent; ``cannot`` is the start of the message."""
    if not has_guest_agent(instance):
        raise ConflictError(f"{cannot}: the server's image has no guest agent (property {PROPERTY}).")
