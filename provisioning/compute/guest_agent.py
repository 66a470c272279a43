"""The agent inside a guest, by which some actions work: the image's property says whether there is one, as in Nova."""

from oslo_utils import strutils

from provisioning.common.errors import ConflictError
from provisioning.compute.models import Instance

PROPERTY = "hw_qemu_guest_agent"


def has_guest_agent(instance: Instance) -> bool:
    """Whether the server's image says that its guest has an agent."""
    return bool(strutils.bool_from_string(instance.image_properties.get(PROPERTY, "")))


def check_guest_agent(instance: Instance, cannot: str) -> None:
    """Raise ConflictError when there is none; ``cannot`` says what cannot be done then."""
    if not has_guest_agent(instance):
        raise ConflictError(f"{cannot}: the server's image has no guest agent (property {PROPERTY}).")
