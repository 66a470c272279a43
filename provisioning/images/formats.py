"""The formats that images may have."""

from compute_agent.disk_formats.formats import BOOTABLE, FORMATS
from provisioning.common.errors import InvalidInputError

DISK_FORMATS = tuple(FORMATS)
"""What is taken: what a host can use; Glance's ``disk_formats``."""
BOOTABLE_FORMATS = BOOTABLE
"""What a root disk can be made from: kernels and ramdisks are no disks."""
CONTAINER_FORMATS = ("bare", "ami", "aki", "ari")
"""Glance's ``container_formats``."""
AMAZON = frozenset({"ami", "aki", "ari"})
"""Containers that hold a disk of their own name only."""


def check_container(disk_format: str, container_format: str) -> None:
    """Check that the formats go together; InvalidInputError."""
    if container_format in AMAZON and disk_format != container_format:
        msg = (
            "Invalid mix of disk and container formats. When setting a disk or container format to one of "
            "'aki', 'ari', or 'ami', the container and disk formats must match."
        )
        raise InvalidInputError(msg, field="container_format")
