"""The disk and container formats of images."""

from django.conf import settings

from compute_agent.disk_formats.formats import BOOTABLE, FORMATS
from provisioning.common.errors import InvalidInputError

DISK_FORMATS = tuple(FORMATS)
"""Formats that hosts can use. The setting ``IMAGE_DISK_FORMATS`` chooses those that users may upload, as Glance's
``disk_formats``.
"""
BOOTABLE_FORMATS = BOOTABLE
"""Formats of root disks, without the formats of kernels and ramdisks."""
CONTAINER_FORMATS = ("bare", "ami", "aki", "ari")
"""Glance's ``container_formats``."""
AMAZON = frozenset({"ami", "aki", "ari"})
"""Container formats that require the disk format of the same name."""


def check_taken(disk_format: str) -> None:
    """Raise InvalidInputError for a disk format that the operator does not allow."""
    if disk_format not in settings.IMAGE_DISK_FORMATS:
        taken = ", ".join(settings.IMAGE_DISK_FORMATS)
        msg = f"The operator of this cloud does not allow images of disk_format {disk_format}, only {taken}."
        raise InvalidInputError(msg, field="disk_format")


def check_container(disk_format: str, container_format: str) -> None:
    """Raise InvalidInputError if the disk and container formats do not match."""
    if container_format in AMAZON and disk_format != container_format:
        msg = (
            "Invalid mix of disk and container formats. When setting a disk or container format to one of "
            "'aki', 'ari', or 'ami', the container and disk formats must match."
        )
        raise InvalidInputError(msg, field="container_format")
