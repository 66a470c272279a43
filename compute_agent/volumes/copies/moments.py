"""Temporary snapshots ("moments") of volumes for copies. The name of each contains a hash of its host, so that the
agent finds the snapshots of interrupted copies at its next start.
"""

import hashlib
from collections.abc import Iterator

from compute_agent.volumes.driver import VolumeDriver

CLONE, IMAGE, UNMANAGED = "clone", "image", "unmanaged"
"""The purpose of a moment: another volume, an image, or an unmanaged disk."""


def moment(driver: VolumeDriver, what: str, copy_id: str) -> str:
    """Return the name of the temporary snapshot for a copy. ``what``: the purpose of the copy, e.g. ``CLONE``."""
    return f"{what}-{copy_id}-{_of(driver)}"


def left(driver: VolumeDriver) -> Iterator[tuple[str, str]]:
    """Yield the volume and the name of every temporary snapshot of this host. Raises HostError."""
    begins, end = tuple(f"{what}-" for what in (CLONE, IMAGE, UNMANAGED)), f"-{_of(driver)}"
    for stored in driver.contents():
        for name in stored.snapshots:
            if name.startswith(begins) and name.endswith(end):
                yield stored.id, name


def _of(driver: VolumeDriver) -> str:
    """Return the suffix of this host's temporary snapshots, a hash of its name: hosts can share a pool."""
    return hashlib.sha256(driver.settings.host.encode()).hexdigest()[:8]
