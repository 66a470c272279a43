"""The volume drivers. Each module of this package that defines ``DRIVER`` is a driver; it is imported when a pool uses
it.
"""

from importlib import import_module
from pkgutil import iter_modules

from compute_agent.volumes.driver import PoolSettings, VolumeDriver


def names() -> list[str]:
    """Return the names of the available drivers."""
    return sorted(module.name for module in iter_modules(__path__))


def make(settings: PoolSettings) -> VolumeDriver:
    """Create the driver of a pool. Raises ValueError for an unknown driver name."""
    if settings.driver not in names():
        raise ValueError(f"there is no volume driver {settings.driver!r}; there are {', '.join(names())}")
    driver: type[VolumeDriver] = import_module(f"{__name__}.{settings.driver}").DRIVER
    return driver(settings)
