"""The quota usage of volumes and snapshots: in total, and for their type."""

from provisioning.volumes.models import Volume, VolumeType


def of_volume(volume_type: VolumeType | None, size_gb: int) -> dict[str, int]:
    """Return the usage of a volume of this type and size: resource → amount."""
    return _amounts("volumes", volume_type, size_gb)


def of_snapshot(volume: Volume, size_gb: int) -> dict[str, int]:
    """Return the usage of a snapshot of a volume."""
    return _amounts("snapshots", volume.volume_type, size_gb)


def of_snapshot_type(volume_type: VolumeType, size_gb: int) -> dict[str, int]:
    """Return the usage of a snapshot of a volume of this type in the quotas of the type, without the totals."""
    return {f"snapshots_{volume_type.name}": 1, f"gigabytes_{volume_type.name}": size_gb}


def of_type(volume_type: VolumeType, size_gb: int) -> dict[str, int]:
    """Return the usage of a volume in the quotas of its type, without the totals."""
    return {f"volumes_{volume_type.name}": 1, f"gigabytes_{volume_type.name}": size_gb}


def of_deleted(volume_type: VolumeType | None, size_gb: int) -> dict[str, int]:
    """Return the quota usage of the data that a deleted volume leaves for its clones."""
    return {"gigabytes": size_gb} | ({f"gigabytes_{volume_type.name}": size_gb} if volume_type is not None else {})


def _amounts(resource: str, volume_type: VolumeType | None, size_gb: int) -> dict[str, int]:
    result = {resource: 1, "gigabytes": size_gb}
    if volume_type is not None:
        result |= {f"{resource}_{volume_type.name}": 1, f"gigabytes_{volume_type.name}": size_gb}
    return result
