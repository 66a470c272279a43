"""Local disks that a launch asks for beside the root disk: the flavor says what there may be."""

from collections.abc import Sequence

from provisioning.common.errors import InvalidInputError
from provisioning.compute.launch.request import LocalDisk
from provisioning.compute.models import Flavor

FIELD = "block_device_mapping_v2"


def check_local_disks(disks: Sequence[LocalDisk], flavor: Flavor) -> None:
    """Raise InvalidInputError for disks that the flavor does not have: the guest gets the flavor's, in their size."""
    swaps, empty = [disk for disk in disks if disk.swap], [disk for disk in disks if not disk.swap]
    if len(swaps) > 1:
        raise InvalidInputError("Block Device Mapping is Invalid: More than one swap drive requested.", field=FIELD)
    if swaps and max(swaps[0].size or 0, 1) > flavor.swap_mb:
        raise InvalidInputError(
            "Block Device Mapping is Invalid: Swap drive requested is larger than instance type allows.", field=FIELD
        )
    if sum(disk.size or max(flavor.ephemeral_gb, 1) for disk in empty) > flavor.ephemeral_gb:
        raise InvalidInputError(
            "Block Device Mapping is Invalid: Ephemeral disks requested are larger than the instance type allows.",
            field=FIELD,
        )
    if len(empty) > 1:
        raise InvalidInputError(
            "Block Device Mapping is Invalid: a server has one ephemeral disk, as large as its flavor says.",
            field=FIELD,
        )
