"""Labels of the statuses of volumes, snapshots and backups."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from provisioning.volumes.models import Message, VolumeType
from provisioning.volumes.selectors.types import DEFAULT
from provisioning.volumes.services import messages


def type_name(volume_type: VolumeType | None) -> str:
    """Return the name of a volume type; the built-in default type is shown as ``default``."""
    if volume_type is None:
        return ""
    return "default" if volume_type.name == DEFAULT else volume_type.name


FAILED: Mapping[str, str] = {
    messages.SCHEDULE.id: "No storage pool has space for it",
    messages.CREATE_FROM_BACKEND.id: "It could not be created",
    messages.COPY_FROM_IMAGE.id: "Its image could not be copied to it",
    messages.COPY_TO_IMAGE.id: "It could not be copied to an image",
    messages.ATTACH.id: "It could not be attached",
    messages.EXTEND.id: "It could not be extended",
    messages.DELETE.id: "It could not be deleted",
    messages.RETYPE.id: "Its type could not be changed",
    messages.MIGRATE.id: "It could not be moved",
}
"""Action of a failure message → its text on pages; for all other actions, pages show the API's text."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason of a failure, as shown on the page of a volume."""

    text: str
    created_at: datetime


def failure(message: Message) -> Failure:
    """Convert a message of the API."""
    what, colon, reason = message.text.partition(": ")
    title = FAILED.get(message.action_id, what.capitalize())
    return Failure(f"{title}: {reason}" if colon else message.text, message.created_at)
