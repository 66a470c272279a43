"""What is frozen of a volume for the time of a copy: each has a name that says whose it is, so that what an agent that
was killed has left is found when the next one begins.
"""

import hashlib
from collections.abc import Iterator

from compute_agent.volumes.driver import VolumeDriver

CLONE, IMAGE, UNMANAGED = "clone", "image", "unmanaged"
"""What a moment is for: another volume, an image, or a disk that is nobody's."""


def moment(driver: VolumeDriver, what: str, copy_id: str) -> str:
    """Return the name of the snapshot that a copy of this host is made of."""
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
