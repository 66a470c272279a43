"""The formats that images may have."""

from django.conf import settings

from compute_agent.disk_formats.formats import BOOTABLE, FORMATS
from provisioning.common.errors import InvalidInputError

DISK_FORMATS = tuple(FORMATS)
"""What a host can use; the setting ``IMAGE_DISK_FORMATS`` says what of it is taken, as Glance's ``disk_formats``."""
BOOTABLE_FORMATS = BOOTABLE
"""What a root disk can be made from: kernels and ramdisks are no disks."""
CONTAINER_FORMATS = ("bare", "ami", "aki", "ari")
"""Glance's ``container_formats``."""
AMAZON = frozenset({"ami", "aki", "ari"})
"""Containers that hold a disk of their own name only."""


def check_taken(disk_format: str) -> None:
    """Raise InvalidInputError, which says why, for a format that the operator does not let in."""
    if disk_format not in settings.IMAGE_DISK_FORMATS:
        taken = ", ".join(settings.IMAGE_DISK_FORMATS)
        msg = f"The operator of this cloud takes no images of disk_format {disk_format}, but of {taken}."
        raise InvalidInputError(msg, field="disk_format")


def check_container(disk_format: str, container_format: str) -> None:
    """Check that the formats go together; InvalidInputError."""
    if container_format in AMAZON and disk_format != container_format:
        msg = (
            "Invalid mix of disk and container formats. When setting a disk or container format to one of "
            "'aki', 'ari', or 'ami', the container and disk formats must match."
        )
        raise InvalidInputError(msg, field="container_format")
