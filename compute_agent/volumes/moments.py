"""The frozen snapshots of a volume during a copy: each has a name that identifies its host, so that the remnants of a
killed agent are found at its next start.
"""

import hashlib
from collections.abc import Iterator

from compute_agent.volumes.driver import VolumeDriver

CLONE, IMAGE, UNMANAGED = "clone", "image", "unmanaged"
"""The purpose of a moment: another volume, an image, or an unmanaged disk."""


def moment(driver: VolumeDriver, what: str, copy_id: str) -> str:
    """Return the name of the snapshot that a copy of this host is created from."""
    return f"{what}-{copy_id}-{_of(driver)}"


def left(driver: VolumeDriver) -> Iterator[tuple[str, str]]:
    """Yield volume and snapshot of every moment of this host.  Raises HostError."""
    begins, end = tuple(f"{what}-" for what in (CLONE, IMAGE, UNMANAGED)), f"-{_of(driver)}"
    for stored in driver.contents():
        for name in stored.snapshots:
            if name.startswith(begins) and name.endswith(end):
                yield stored.id, name


def _of(driver: VolumeDriver) -> str:
    """Return what stands for the host: a pool may be another's, too."""
    return hashlib.sha256(driver.settings.host.encode()).hexdigest()[:8]
