"""The volume drivers."""

from collections.abc import Mapping

from compute_agent.volumes.driver import PoolSettings, VolumeDriver
from compute_agent.volumes.drivers.dir import DirDriver
from compute_agent.volumes.drivers.fake import FakeDriver
from compute_agent.volumes.drivers.nbd import NbdDriver
from compute_agent.volumes.drivers.rbd import RbdDriver

DRIVERS: Mapping[str, type[VolumeDriver]] = {
    "dir": DirDriver,
    "fake": FakeDriver,
    "nbd": NbdDriver,
    "rbd": RbdDriver,
}
"""Name of a driver → its class."""


def make(settings: PoolSettings) -> VolumeDriver:
    """Create the driver of a pool. Raises ValueError for an unknown driver name."""
    if settings.driver not in DRIVERS:
        raise ValueError(f"there is no volume driver {settings.driver!r}; there are {', '.join(DRIVERS)}")
    return DRIVERS[settings.driver](settings)
