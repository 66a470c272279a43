"""What volumes and snapshots hold of the quotas: in sum, and of their type."""

from provisioning.volumes.models import Volume, VolumeType


def of_volume(volume_type: VolumeType | None, size_gb: int) -> dict[str, int]:
    """Return what a volume of this type and size holds: resource → amount."""
    return _amounts("volumes", volume_type, size_gb)


def of_snapshot(volume: Volume, size_gb: int) -> dict[str, int]:
    """Return what a snapshot of a volume holds."""
    return _amounts("snapshots", volume.volume_type, size_gb)


def of_snapshot_type(volume_type: VolumeType, size_gb: int) -> dict[str, int]:
    """Return what a snapshot of a volume of this type holds of the type alone."""
    return {f"snapshots_{volume_type.name}": 1, f"gigabytes_{volume_type.name}": size_gb}


def of_type(volume_type: VolumeType, size_gb: int) -> dict[str, int]:
    """Return what a volume holds of its type alone."""
    return {f"volumes_{volume_type.name}": 1, f"gigabytes_{volume_type.name}": size_gb}


def of_deleted(volume_type: VolumeType | None, size_gb: int) -> dict[str, int]:
    """Return what data of a deleted volume holds."""
    return {"gigabytes": size_gb} | ({f"gigabytes_{volume_type.name}": size_gb} if volume_type is not None else {})


def _amounts(resource: str, volume_type: VolumeType | None, size_gb: int) -> dict[str, int]:
    found = {resource: 1, "gigabytes": size_gb}
    if volume_type is not None:
        found |= {f"{resource}_{volume_type.name}": 1, f"gigabytes_{volume_type.name}": size_gb}
    return found
